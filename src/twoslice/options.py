"""What the commands can be told: every argument and option that `cli.py` uses, with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Exit, Option, echo

from twoslice import __version__


def _show_version(wanted: bool) -> None:
    if wanted:
        echo(f"twoslice {__version__}")
        raise Exit


Version = Annotated[
    bool, Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
]

# Folders and files.
DatasetFolder = Annotated[Path, Argument(metavar="DATASET", help="A dataset folder.")]
DenseFolder = Annotated[Path, Argument(metavar="DENSE", help="A densely labelled dataset.")]
RunFolder = Annotated[Path, Argument(metavar="RUN", help="A folder that train made.")]
Sources = Annotated[list[Path], Argument(metavar="SRC", help="Files or folders of scans.")]
Model = Annotated[
    Path, Argument(metavar="RUN", help="A folder that train made, or a V-Net's .pth file.")
]
Inputs = Annotated[list[Path], Argument(metavar="INPUT", help="Scans, or folders of scans.")]
LabelMaps = Annotated[Path, Argument(metavar="PREDICTIONS", help="A folder of label maps.")]
DenseLabels = Annotated[Path, Argument(metavar="LABELS", help="A folder of dense labels.")]
OutFolder = Annotated[Path, Option(help="Where everything goes.")]
OutDataset = Annotated[Path, Option(help="The dataset folder to make.")]
OutRun = Annotated[Path, Option(help="The run folder to make.")]
OutLabels = Annotated[Path, Option(help="Where the label maps go.")]
OutScores = Annotated[Path, Option(help="The JSON file to write.")]
OutPage = Annotated[Path | None, Option(help="The page; RUN/report.html if unsaid.")]

# Settings.
Seed = Annotated[int, Option(min=0, help="Same seed, same result.")]
SettingsFile = Annotated[Path | None, Option(help="A YAML file of settings.")]
Assignments = Annotated[
    list[str] | None, Option("--set", metavar="A.B=C", help="Change one setting; repeatable.")
]
Preset = Annotated[str | None, Option(help="A named set of settings: fast, paper, plus.")]
MethodName = Annotated[
    str | None, Option(help="How to learn: desco, mean_teacher, cps, supervised, …")
]
Resume = Annotated[bool, Option("--resume", help="Go on with a stopped run.")]
RegistrarName = Annotated[
    Literal["batched", "ants"] | None, Option(help="What registers the slices.")
]

# Where jobs run.
EngineName = Annotated[
    Literal["local", "dask"] | None, Option("--engine", help="Processes here, or a Dask cluster.")
]
Workers = Annotated[int | None, Option(min=1, help="Jobs at once; chosen if unsaid.")]
WorkerMemory = Annotated[
    str | None, Option("--memory", metavar="SIZE", help="Most that a worker may take: '8GB'.")
]
Scheduler = Annotated[
    str | None, Option(metavar="ADDRESS", help="A running Dask scheduler: tcp://HOST:8786.")
]
ClusterName = Annotated[
    str | None, Option(help="Start workers by slurm, pbs, …, or as a YAML file says.")
]
Devices = Annotated[int | None, Option(min=1, help="Devices a node; training.devices.")]
Nodes = Annotated[int | None, Option(min=1, help="Machines, under torchrun; training.nodes.")]

# Importing scans.
LabelFiles = Annotated[
    list[Path] | None, Option(help="Label files named as the cases, or their folder.")
]
NoLabels = Annotated[bool, Option("--no-labels", help="Leave labels of imported datasets out.")]
LabelNames = Annotated[str | None, Option(help="Names of the labels 1, 2, …: 'liver,spleen'.")]
ChannelNames = Annotated[str | None, Option(help="Names of the channels: 'T1,FLAIR'.")]
DatasetName = Annotated[str | None, Option(help="The dataset's name.")]
Series = Annotated[str | None, Option(help="Which DICOM series, if a folder holds several.")]
Millimetres = Annotated[
    str | None, Option(help="Millimetres a voxel, for files without: '0.6,0.6,1.2'.")
]
Benchmark = Annotated[
    Literal["la", "kits19", "lits"] | None,
    Option("--dataset", help="SRC is this data set as downloaded: prepare and split it."),
]

# Simulating slices.
Labeled = Annotated[int, Option(min=1, help="How many cases keep slices.")]
Planes = Annotated[str, Option(help="Planes of the slices.")]
Scheme = Annotated[Literal["orthogonal", "parallel", "single"], Option(help="How slices lie.")]
SliceChoice = Annotated[
    Literal["middle", "spread", "random", "largest"], Option(help="Which slice of a plane.")
]
FixedSlices = Annotated[
    str | None, Option("--slices", help="The same in every case: 'axial 43,coronal 66'.")
]
CaseChoice = Annotated[Literal["first", "random"], Option(help="Which cases keep slices.")]
Whole = Annotated[bool, Option("--whole", help="Keep their labels whole, not slices of them.")]
KeptLabels = Annotated[str | None, Option(help="Keep only these labels: 'liver,spleen'.")]
KeptCases = Annotated[str | None, Option(help="Keep only these cases: 'case_03,case_07'.")]

# Drawing.
Port = Annotated[int | None, Option(min=0, max=65535, help="8017, or a free one if unsaid.")]
Host = Annotated[str, Option(help="Address to listen on; others may then ask, with the token.")]
NoBrowser = Annotated[bool, Option("--no-browser", help="Only print the link.")]
UncertaintyFolder = Annotated[
    Path | None, Option(help="What predict --uncertainty wrote: suggests the least sure slices.")
]
ExportFolder = Annotated[
    Path | None, Option(help="Write the slices to draw for ITK-SNAP or 3D Slicer, and end.")
]
ImportFolder = Annotated[
    Path | None, Option("--import", help="Bring back what was drawn in an exported folder.")
]
ExportedCases = Annotated[str | None, Option(help="Export only these: 'case_03,case_07'.")]

# Predicting, scoring, reporting.
Probabilities = Annotated[
    bool, Option("--probabilities", help="Write each label's probability too.")
]
Uncertainty = Annotated[bool, Option("--uncertainty", help="Write entropy and disagreement too.")]
Flips = Annotated[
    bool | None, Option("--flips/--no-flips", help="Average over the eight mirrorings.")
]
LargestComponent = Annotated[
    bool | None,
    Option("--largest-component/--all-components", help="Of each label the largest piece alone."),
]
WhichNetwork = Annotated[
    Literal["both", "1", "2"] | None, Option("--network", help="Which of two networks predicts.")
]
WindowName = Annotated[
    Literal["auto", "whole", "patch", "paper"] | None,
    Option("--window", help="What goes through at once; auto: all of it where memory allows."),
]
Overwrite = Annotated[
    bool, Option("--overwrite", help="Make finished ones again; replace another run's.")
]
CsvFile = Annotated[Path | None, Option("--csv", help="Write every row as CSV too.")]
TableFile = Annotated[
    Path | None, Option("--table", help="Write the paper's table too: FILE.md or FILE.tex.")
]
ClassNames = Annotated[str | None, Option(help="Label names, background first, if none are found.")]
ScoredCases = Annotated[str | None, Option(help="Score only these cases: 'case_03,case_07'.")]
Tolerance = Annotated[float, Option(min=0.0, help="Of the surface Dice, in mm.")]
MovedDataset = Annotated[Path | None, Option(help="The dataset, if it moved since training.")]
ShownLabels = Annotated[Path | None, Option(help="Label maps to show.")]
ScoringLabels = Annotated[Path | None, Option(help="Dense labels to score them with.")]
ShownScans = Annotated[
    list[Path] | None, Option(help="Predicted scans that are not in the dataset; repeatable.")
]
MoreScans = Annotated[
    list[Path] | None,
    Option("--predict", help="Scans to predict beside the dataset's; repeatable."),
]

# Handing on.
ExportForm = Annotated[str, Option("--to", help="monai-bundle, onnx or nnunet.")]
ExportOut = Annotated[Path, Option("--out", help="The folder to make.")]
ExportedLabels = Annotated[
    Path | None, Option(help="For nnunet: label maps of predict, in place of propagated labels.")
]
LeastTrust = Annotated[
    float | None,
    Option(min=0.0, max=1.0, help="For nnunet: labels trusted less become 'ignore'; 0.5."),
]

# Studies.
StudyFile = Annotated[Path, Argument(metavar="FILE", help="A study file, or a shipped one's name.")]
DataFolder = Annotated[
    Path | None, Option("--data", help="Where the dense datasets lie; $TWOSLICE_DATA if unsaid.")
]
Retry = Annotated[bool, Option("--retry", help="Try the runs again that failed.")]
