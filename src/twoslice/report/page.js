"use strict";
// Tables sort by a click on their headings; slices of a scan scroll by slider, wheel or arrow keys.
(() => {
  const SVG = "http://www.w3.org/2000/svg";

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = head.querySelector("button");
      if (button) button.addEventListener("click", () => sort(table, heads, column));
    });
  }

  function sort(table, heads, column) {
    const up = heads[column].getAttribute("aria-sort") !== "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", up ? "ascending" : "descending");
    const value = (row) => {
      const cell = row.cells[column];
      return cell.dataset.sort === undefined ? cell.textContent.trim() : Number(cell.dataset.sort);
    };
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [value(row), row]);
    rows.sort(([a], [b]) => (typeof a === "number" ? a - b : a.localeCompare(b)) * (up ? 1 : -1));
    rows.forEach(([, row]) => body.append(row));
  }

  const viewer = document.getElementById("viewer");
  if (!viewer) return;
  const choice = document.getElementById("viewer-scan");
  const panels = document.getElementById("viewer-planes");
  const over = [...viewer.querySelectorAll("input[data-over]")];

  function make(name, attributes, parent) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    parent.append(element);
    return element;
  }

  function open(number) {
    const scan = JSON.parse(document.getElementById(`scan-${number}`).textContent);
    panels.replaceChildren(...scan.planes.map((plane) => panel(scan, plane)));
    layers();
  }

  function panel(scan, plane) {
    const [width, height] = plane.mm;
    const figure = document.createElement("figure");
    figure.style.flex = `${width / height} 1 0`;
    const svg = make("svg", { class: "slice", viewBox: `0 0 ${width} ${height}`, role: "img" }, figure);
    const sheets = { scan: plane.sheet, doubt: plane.doubt };
    const images = Object.entries(sheets).filter(([, source]) => source).map(([kind, source]) =>
      make("image", {
        class: `over-${kind}`, href: source, preserveAspectRatio: "none",
        width: plane.columns * width, height: plane.rows * height,
      }, svg));
    const scale = `scale(${width / plane.size[0] / 2} ${height / plane.size[1] / 2})`;
    const groups = ["reference", "outlines"].filter((kind) => plane[kind]).map((kind) =>
      [plane[kind], kind, make("g", { class: `over-${kind}`, transform: scale }, svg)]);
    const label = document.createElement("label");
    const words = document.createElement("span");
    const slider = document.createElement("input");
    Object.assign(slider, { type: "range", min: "0", max: String(plane.slices.length - 1) });
    slider.value = String(plane.start);
    label.append(words, slider);
    figure.append(label);

    function show() {
      const at = Number(slider.value);
      const drawn = plane.drawn.includes(plane.slices[at]) ? ", drawn" : "";
      words.textContent = `${plane.name} ${plane.slices[at]} of ${plane.of}${drawn}`;
      svg.setAttribute("aria-label", `${scan.case}, ${words.textContent}`);
      for (const image of images) {
        image.setAttribute("x", String(-(at % plane.columns) * width));
        image.setAttribute("y", String(-Math.floor(at / plane.columns) * height));
      }
      for (const [outlines, kind, group] of groups) {
        group.replaceChildren();
        for (const [value, path] of outlines[at]) {
          const style = kind === "reference" ? "reference" : "predicted";
          make("path", { class: `${style} label-${((value - 1) % 8) + 1}`, d: path }, group);
        }
      }
    }
    slider.addEventListener("input", show);
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      slider.value = String(Number(slider.value) + Math.sign(event.deltaY));
      show();
    }, { passive: false });
    show();
    return figure;
  }

  function layers() {
    for (const box of over) {
      panels.querySelectorAll(`.over-${box.dataset.over}`).forEach((part) => {
        part.style.display = box.checked ? "" : "none";
      });
    }
  }

  over.forEach((box) => box.addEventListener("change", layers));
  choice.addEventListener("change", () => open(choice.value));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-scan]");
    if (!button) return;
    choice.value = button.dataset.scan;
    open(choice.value);
    viewer.scrollIntoView({ behavior: "smooth", block: "start" });
  });
  viewer.hidden = false;
  open(choice.value);
})();
