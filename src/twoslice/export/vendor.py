"""Copies of modules, with all that they import of twoslice, under another package name."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import twoslice

_ROOT = Path(twoslice.__file__).parent
_IMPORT = re.compile(r"^(\s*(?:from|import) )twoslice\.", re.MULTILINE)


def modules_needed(modules: Iterable[str]) -> list[str]:
    """`modules` and every module of twoslice that one of them imports, directly or not."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _imports(_file(name))
    return sorted(found)


def foreign_packages(modules: Iterable[str]) -> set[str]:
    """The packages from elsewhere that these modules import."""
    names = {top for name in modules for top in _named(_file(name))}
    return {name.partition(".")[0] for name in names} - {"twoslice", "__future__"}


def copy_modules(modules: Iterable[str], target: Path, *, docstring: str) -> None:
    """Write the modules and all that they need as the package `target`."""
    target.mkdir()
    (target / "__init__.py").write_text(f'"""{docstring}"""\n', encoding="utf-8")
    for name in modules_needed(modules):
        source = _file(name)
        copy = target / source.relative_to(_ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = _IMPORT.sub(rf"\g<1>{target.name}.", source.read_text(encoding="utf-8"))
        copy.write_text(text, encoding="utf-8")
        if copy.parent != target and not (copy.parent / "__init__.py").exists():
            shutil.copyfile(source.parent / "__init__.py", copy.parent / "__init__.py")


def _file(name: str) -> Path:
    return _ROOT.joinpath(*name.split(".")[1:]).with_suffix(".py")


def _imports(file: Path) -> list[str]:
    return [name for name in _named(file) if name.startswith("twoslice.") and _file(name).is_file()]


def _named(file: Path) -> list[str]:
    """The modules that a file's import statements name; `from a import b` may name `a.b`."""
    names = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names
