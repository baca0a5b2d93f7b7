// Values under the pointer or the arrow keys, series that can be hidden, figures to keep, commands to copy. The page says
// everything without this, too.
const svgElement = (name) => document.createElementNS("http://www.w3.org/2000/svg", name);
const numbers = (text) => text.split(" ").map(Number);
const isShown = (element) => element.closest("g.series.hidden") === null;

function addElement(parent, name, text, className) {
  const element = parent.appendChild(document.createElement(name));
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

// Where a panel's values are read: the box that shows them, and what is spoken.
class Reading {
  constructor(figure, svg) {
    Object.assign(this, { figure, svg });
    this.tip = figure.querySelector(".tip") ?? addElement(figure, "div", "", "tip hidden");
    this.spoken = figure.querySelector(".spoken") ?? addElement(figure, "div", "", "spoken");
    this.spoken.setAttribute("aria-live", "polite");
  }
  hide() {
    this.mark?.classList.add("hidden");
    this.tip.classList.add("hidden");
  }
  // Beside a place of the drawing, within the figure.
  place(content, x, spoken) {
    this.tip.replaceChildren(content);
    this.tip.style.left = "0";
    this.tip.classList.remove("hidden");
    const box = this.svg.getBoundingClientRect(), within = this.figure.getBoundingClientRect();
    const offset = box.left - within.left + x * box.width / this.svg.viewBox.baseVal.width;
    const wanted = offset > within.width / 2 ? offset - 14 - this.tip.offsetWidth : offset + 14;
    this.tip.style.left = Math.max(0, Math.min(wanted, within.width - this.tip.offsetWidth)) + "px";
    this.tip.style.top = box.top - within.top + 24 + "px";
    if (spoken) this.spoken.textContent = this.tip.innerText.replace(/\s+/g, " ");
  }
}

// Lines against epochs or radii: all values at one place.
class LineReading extends Reading {
  constructor(figure, svg) {
    super(figure, svg);
    const of = svg.dataset;
    Object.assign(this, { left: Number(of.left), right: Number(of.right), first: Number(of.first), last: Number(of.last) });
    this.series = [...svg.querySelectorAll("g.series")].map((g) => {
      const median = numbers(g.dataset.median);
      const step = Number(g.dataset.step), last = Number(g.dataset.last);
      const x = g.dataset.x ? numbers(g.dataset.x) : median.map((_, i) => Math.min(1 + i * step, last));
      return { g, x, median, low: g.dataset.low && numbers(g.dataset.low), high: g.dataset.high && numbers(g.dataset.high) };
    });
    this.places = [...new Set(this.series.flatMap((s) => s.x))].sort((a, b) => a - b);
    this.mark = svg.appendChild(svgElement("line"));
    this.mark.setAttribute("class", "cursor hidden");
    this.mark.setAttribute("y1", of.top);
    this.mark.setAttribute("y2", of.bottom);
  }
  rows(at) {
    return this.series.filter((s) => isShown(s.g)).map((s) => ({ s, i: s.x.indexOf(at) }))
      .filter((row) => row.i >= 0).sort((a, b) => b.s.median[b.i] - a.s.median[a.i]);
  }
  content(at, rows) {
    const table = document.createElement("table"), head = table.insertRow();
    const banded = rows.some((row) => row.s.low);
    head.insertCell().textContent = (this.svg.dataset.axis ?? "epoch") + " " + at;
    head.insertCell().textContent = banded ? "median" : "";
    if (banded) head.insertCell().textContent = "25–75 %";
    for (const { s, i } of rows) {
      const row = table.insertRow(), name = row.insertCell();
      row.className = [...s.g.classList].find((word) => /^c\d/.test(word));
      name.append(document.createElement("i"), s.g.dataset.part ?? s.g.dataset.name);
      row.insertCell().textContent = s.median[i];
      if (banded) row.insertCell().textContent = s.low[i] + " – " + s.high[i];
    }
    return table;
  }
  show(index, spoken) {
    const at = this.places[index], rows = this.rows(at);
    if (rows.length === 0) return this.hide();
    this.index = index;
    const x = this.left + (at - this.first) / (this.last - this.first) * (this.right - this.left);
    this.mark.setAttribute("x1", x);
    this.mark.setAttribute("x2", x);
    this.mark.classList.remove("hidden");
    this.place(this.content(at, rows), x, spoken);
  }
  point(x) {
    const at = this.first + (x - this.left) / (this.right - this.left) * (this.last - this.first);
    const step = this.places.length > 1 ? this.places[1] - this.places[0] : 1;
    if (at < this.places[0] - step / 2 || at > this.places.at(-1) + step / 2) return this.hide();
    const shown = this.places.map((place, i) => i).filter((i) => this.rows(this.places[i]).length > 0);
    if (shown.length === 0) return this.hide();
    this.show(shown.reduce((best, i) => Math.abs(this.places[i] - at) < Math.abs(this.places[best] - at) ? i : best));
  }
  move(key) {
    const last = this.places.length - 1, from = this.index ?? (key === "ArrowLeft" ? last + 1 : -1);
    const to = { ArrowRight: from + 1, ArrowLeft: from - 1, Home: 0, End: last }[key];
    this.show(Math.max(0, Math.min(last, to)), true);
  }
}

// Dots and other marks, each with a title of its own.
class MarkReading extends Reading {
  constructor(figure, svg) {
    super(figure, svg);
    this.marks = [...svg.querySelectorAll("circle, path")].filter((mark) => mark.querySelector("title"));
    for (const mark of this.marks) mark.dataset.title = mark.querySelector("title").textContent;
    for (const mark of this.marks) mark.querySelector("title").remove(); // the browser would show it, too
    this.mark = svg.appendChild(svgElement("circle"));
    this.mark.setAttribute("class", "ring hidden");
    this.mark.setAttribute("r", 7);
  }
  centre(mark) {
    const box = mark.getBBox();
    return [box.x + box.width / 2, box.y + box.height / 2];
  }
  show(index, spoken) {
    const mark = this.marks[index], [x, y] = this.centre(mark);
    this.index = index;
    this.mark.setAttribute("cx", x);
    this.mark.setAttribute("cy", y);
    this.mark.classList.remove("hidden");
    const text = document.createElement("p"), name = mark.closest("[data-name]")?.dataset.name;
    text.textContent = (name && !mark.dataset.title.startsWith(name) ? name + ", " : "") + mark.dataset.title;
    this.place(text, x, spoken);
  }
  point(x, y) {
    let best, least = 24; // pixels
    this.marks.forEach((mark, i) => {
      if (!isShown(mark)) return;
      const [cx, cy] = this.centre(mark), distance = Math.hypot(cx - x, cy - y);
      if (distance < least) [best, least] = [i, distance];
    });
    if (best === undefined) this.hide();
    else this.show(best);
  }
  move(key) {
    const shown = this.marks.map((mark, i) => i).filter((i) => isShown(this.marks[i]));
    if (shown.length === 0) return this.hide();
    const from = shown.indexOf(this.index), last = shown.length - 1;
    const to = { ArrowRight: from + 1, ArrowLeft: from < 0 ? last : from - 1, Home: 0, End: last }[key];
    this.show(shown[Math.max(0, Math.min(last, to))], true);
  }
}

// A map: the value of the nearest point of its grid.
class MapReading extends Reading {
  constructor(figure, svg) {
    super(figure, svg);
    const of = svg.dataset;
    Object.assign(this, { side: Number(of.map), left: Number(of.left), right: Number(of.right), top: Number(of.top),
                          bottom: Number(of.bottom), extent: Number(of.extent), values: of.values.split(" ") });
    this.mark = svg.appendChild(svgElement("circle"));
    this.mark.setAttribute("class", "ring hidden");
    this.mark.setAttribute("r", 5);
  }
  show([column, row], spoken) {
    const share = (i) => this.side > 1 ? i / (this.side - 1) : 0.5, value = this.values[row * this.side + column];
    const x = this.left + share(column) * (this.right - this.left), y = this.bottom - share(row) * (this.bottom - this.top);
    this.at = [column, row];
    this.mark.setAttribute("cx", x);
    this.mark.setAttribute("cy", y);
    this.mark.classList.remove("hidden");
    const place = (i) => Number((this.extent * (2 * share(i) - 1)).toPrecision(3)), text = document.createElement("p");
    text.textContent = `(${place(column)}, ${place(row)}): ${this.svg.dataset.unit} ${value === "-" ? "not finite" : value}`;
    this.place(text, x, spoken);
  }
  point(x, y) {
    const column = Math.round((x - this.left) / (this.right - this.left) * (this.side - 1));
    const row = Math.round((this.bottom - y) / (this.bottom - this.top) * (this.side - 1));
    if (Math.min(column, row) < 0 || Math.max(column, row) >= this.side) this.hide();
    else this.show([column, row]);
  }
  move(key) {
    const middle = (this.side - 1) >> 1, [column, row] = this.at ?? [middle, middle], last = this.side - 1;
    const [right, up] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1], Home: [-column, 0],
                          End: [last, 0] }[key];
    const within = (i) => Math.max(0, Math.min(last, i));
    this.show(this.at ? [within(column + right), within(row + up)] : [column, row], true);
  }
}

function readingOf(figure, svg) {
  if (svg.dataset.map !== undefined) return new MapReading(figure, svg);
  if (svg.dataset.marks !== undefined) return new MarkReading(figure, svg);
  if (svg.dataset.first !== undefined && svg.querySelector("g.series")) return new LineReading(figure, svg);
  return null;
}

// One panel of a figure can be reached by Tab; arrows up and down go to the others.
function readWithKeys(svgs, svg, reading) {
  svg.addEventListener("keydown", (event) => {
    const beside = { ArrowUp: -1, PageUp: -1, ArrowDown: 1, PageDown: 1 }[event.key];
    if (event.key === "Escape") return reading.hide();
    if (beside && !(reading instanceof MapReading)) {
      const other = svgs[svgs.indexOf(svg) + beside];
      if (other === undefined) return;
      svg.tabIndex = -1;
      other.tabIndex = 0;
      other.focus();
    } else if (/^(Arrow|Home|End)/.test(event.key)) {
      reading.move(event.key);
    } else {
      return;
    }
    event.preventDefault();
  });
  svg.addEventListener("blur", () => reading.hide());
}

function makeReadable(figure) {
  const svgs = [...figure.querySelectorAll("svg.figure")];
  for (const svg of svgs) {
    const reading = readingOf(figure, svg);
    if (reading === null) continue;
    const point = (event) => {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      reading.point((event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
    };
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", () => reading.hide());
    svg.tabIndex = svg === svgs[0] ? 0 : -1;
    readWithKeys(svgs, svg, reading);
  }
}

function makeSwitch(section, item) {
  item.setAttribute("role", "button");
  item.setAttribute("tabindex", "0");
  item.setAttribute("aria-pressed", "true");
  item.title = "show or hide";
  const toggle = () => {
    const shown = item.getAttribute("aria-pressed") !== "true"; // a section may have more than one legend
    for (const same of section.querySelectorAll(`.legend [data-series="${item.dataset.series}"]`))
      same.setAttribute("aria-pressed", String(shown));
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

function addTools(figure) {
  const tools = addElement(figure, "div", "", "tools");
  addElement(tools, "span", "Save as");
  for (const kind of Object.keys(figureWriters)) {
    const button = addElement(tools, "button", kind);
    button.type = "button";
    button.setAttribute("aria-label", `save this figure as ${kind}`);
    button.addEventListener("click", () => saveFigure(figure, kind));
  }
}

// Where the clipboard is closed to pages, the old way works in most browsers.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = addElement(document.body, "textarea", text);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

function addCopying(command) {
  const button = addElement(command, "button", "Copy");
  button.type = "button";
  button.addEventListener("click", async () => {
    await copyText(command.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

// Says that a table goes on where it does.
function addHint(scroll) {
  const hint = document.createElement("p");
  hint.className = "more";
  hint.textContent = "This table is wider than the window: scroll it sideways →";
  scroll.before(hint);
  new ResizeObserver(() => hint.classList.toggle("there", scroll.scrollWidth > scroll.clientWidth + 1)).observe(scroll);
}

function semfocusEnhance(root) {
  for (const section of root.querySelectorAll("section.task")) {
    for (const figure of section.querySelectorAll("figure")) {
      makeReadable(figure);
      addTools(figure);
    }
    for (const item of section.querySelectorAll(".legend [data-series]")) makeSwitch(section, item);
  }
  for (const command of root.querySelectorAll(".command")) addCopying(command);
  for (const scroll of root.querySelectorAll(".scroll")) addHint(scroll);
}

semfocusEnhance(document);
