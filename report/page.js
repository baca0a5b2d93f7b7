"use strict";
// Values under the pointer, and series that can be hidden. The page says everything without this, too.
const svgName = (name) => document.createElementNS("http://www.w3.org/2000/svg", name);
const numbers = (element, name) => element.dataset[name].split(" ").map(Number);

function showValues(figure, svg) {
  const left = Number(svg.dataset.left), right = Number(svg.dataset.right);
  const first = Number(svg.dataset.first), last = Number(svg.dataset.last);
  const series = [...svg.querySelectorAll("g.series")].map((g) => ({
    g, step: Number(g.dataset.step), low: numbers(g, "low"), median: numbers(g, "median"), high: numbers(g, "high"),
  }));
  if (series.length === 0) return;
  const cursor = svg.appendChild(svgName("line"));
  cursor.setAttribute("class", "cursor hidden");
  cursor.setAttribute("y1", 14);
  cursor.setAttribute("y2", 310);
  const tip = figure.appendChild(document.createElement("div"));
  tip.className = "tip hidden";

  function hide() {
    cursor.classList.add("hidden");
    tip.classList.add("hidden");
  }
  function rowsAt(epoch) {
    return series.filter((s) => !s.g.classList.contains("hidden")).map((s) => {
      const at = (epoch - 1) / s.step;
      return at < s.median.length ? { s, at, value: s.median[at] } : null;
    }).filter(Boolean).sort((a, b) => b.value - a.value);
  }
  function show(event) {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    const step = series[0].step; // only every so many epochs have values
    const epoch = 1 + step * Math.round((first + (x - left) / (right - left) * (last - first) - 1) / step);
    const rows = rowsAt(epoch);
    if (epoch < first || epoch > last || rows.length === 0) return hide();
    const place = left + (epoch - first) / (last - first) * (right - left);
    cursor.setAttribute("x1", place);
    cursor.setAttribute("x2", place);
    cursor.classList.remove("hidden");
    const table = document.createElement("table");
    const head = table.insertRow();
    head.insertCell().textContent = "epoch " + epoch;
    head.insertCell().textContent = "median";
    head.insertCell().textContent = "25–75 %";
    for (const { s, at } of rows) {
      const row = table.insertRow();
      row.className = [...s.g.classList].find((name) => /^c\d/.test(name));
      const name = row.insertCell();
      name.style.textAlign = "left";
      name.append(document.createElement("i"), s.g.dataset.name);
      row.insertCell().textContent = s.median[at];
      row.insertCell().textContent = s.low[at] + " – " + s.high[at];
    }
    tip.replaceChildren(table);
    tip.style.left = "0";
    tip.classList.remove("hidden");
    const within = figure.getBoundingClientRect();
    const offset = event.clientX - within.left;
    const wanted = offset > within.width / 2 ? offset - 16 - tip.offsetWidth : offset + 16;
    tip.style.left = Math.max(0, Math.min(wanted, within.width - tip.offsetWidth)) + "px";
    tip.style.top = box.top - within.top + 24 + "px";
  }
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerdown", show);
  svg.addEventListener("pointerleave", hide);
}

function makeSwitch(section, item) {
  item.setAttribute("role", "button");
  item.setAttribute("tabindex", "0");
  item.setAttribute("aria-pressed", "true");
  item.title = "show or hide";
  const toggle = () => {
    const shown = item.getAttribute("aria-pressed") !== "true";
    item.setAttribute("aria-pressed", String(shown));
    for (const g of section.querySelectorAll(`g.series[data-series="${item.dataset.series}"]`))
      g.classList.toggle("hidden", !shown);
  };
  item.addEventListener("click", toggle);
  item.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    toggle();
  });
}

for (const section of document.querySelectorAll("section.task")) {
  for (const figure of section.querySelectorAll("figure")) {
    const svg = figure.querySelector("svg.figure");
    if (svg.dataset.first !== undefined) showValues(figure, svg);
  }
  for (const item of section.querySelectorAll(".legend li")) makeSwitch(section, item);
}
