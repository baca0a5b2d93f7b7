"use strict";
// Figures as files, made in the browser from what is drawn: SVG with all its styles written out, PNG by way of a canvas,
// and PDF by a small writer for the few kinds of elements that our figures have.
const kept = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin",
              "paint-order", "font-size", "text-anchor"];

// Copies what is shown, each element with the style that it has on the page.
function copyShown(element) {
  const style = getComputedStyle(element);
  if (style.display === "none" || element.matches(".cursor, .ring")) return null;
  const copy = element.cloneNode(false);
  for (const { name } of [...copy.attributes]) if (/^(class|data-|tabindex|aria-|role)/.test(name)) copy.removeAttribute(name);
  if (!(element instanceof SVGGElement) && !(element instanceof SVGSVGElement))
    for (const name of kept) if (style.getPropertyValue(name)) copy.setAttribute(name, style.getPropertyValue(name));
  for (const child of element.childNodes) {
    const part = child.nodeType === Node.TEXT_NODE ? child.cloneNode() : child.nodeType === Node.ELEMENT_NODE && copyShown(child);
    if (part) copy.append(part);
  }
  return copy;
}

const make = (name, attributes, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
};

function wrapWords(text, most) {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    if (lines.at(-1) && lines.at(-1).length + word.length >= most) lines.push("");
    lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word;
  }
  return lines;
}

// The names of the series that the figure shows, with their lines.
function addNames(whole, figure, width, top) {
  const paper = { fill: getComputedStyle(figure.querySelector("figcaption b")).color, "font-size": "12px" };
  const shown = new Set([...figure.querySelectorAll("g.series:not(.hidden)")].map((g) => g.dataset.series));
  const own = [...figure.querySelectorAll(".legend li")];
  const section = figure.closest("section");
  const items = own.length > 0 ? own : [...section.querySelectorAll(".legend [data-series]")]
    .filter((item, i, all) => shown.has(item.dataset.series) && all.findIndex((other) => other.dataset.series === item.dataset.series) === i);
  let x = 12, y = top + 12;
  for (const item of items) {
    const name = item.textContent.trim(), room = 40 + 7 * name.length;
    if (x > 12 && x + room > width) [x, y] = [12, y + 20];
    const line = copyShown(item.querySelector("path"));
    line.setAttribute("transform", `translate(${x} ${y - 5})`);
    whole.append(line, make("text", { x: x + 34, y: y + 4, ...paper }, name));
    x += room + 12;
  }
  return items.length > 0 ? y + 14 : top;
}

// One drawing of all panels of a figure, with its title above and the names below.
function composeFigure(figure) {
  const panels = [...figure.querySelectorAll("svg.figure")], columns = panels.length < 2 ? 1 : panels.length < 5 ? 2 : 3;
  const wide = Math.max(...panels.map((svg) => svg.viewBox.baseVal.width));
  const high = Math.max(...panels.map((svg) => svg.viewBox.baseVal.height));
  const width = columns * wide + (columns - 1) * 14, caption = figure.querySelector("figcaption b");
  const task = figure.closest("section").querySelector("h2")?.textContent;
  const whole = make("svg", { xmlns: "http://www.w3.org/2000/svg", "font-family": "Helvetica, Arial, sans-serif" });
  const background = whole.appendChild(make("rect", { width, fill: getComputedStyle(document.body).backgroundColor }));
  let top = 16;
  for (const line of wrapWords((task ? task + ": " : "") + caption.textContent, width / 7)) {
    whole.append(make("text", { x: 12, y: top, "font-size": "13px", "font-weight": "bold", fill: getComputedStyle(caption).color }, line));
    top += 18;
  }
  panels.forEach((svg, i) => {
    const place = whole.appendChild(make("g", { transform: `translate(${i % columns * (wide + 14)} ${top + Math.floor(i / columns) * (high + 14)})` }));
    place.append(...copyShown(svg).childNodes);
  });
  const height = addNames(whole, figure, width, top + Math.ceil(panels.length / columns) * (high + 14)) + 4;
  background.setAttribute("height", height);
  for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) whole.setAttribute(name, value);
  return whole;
}

// PDF. Helvetica has the characters of Windows' code page 1252; Greek letters and some signs are those of Symbol.
const symbols = { "δ": 0x64, "Δ": 0x44, "β": 0x62, "≤": 0xa3, "≥": 0xb3, "≈": 0xbb };
const windowsSigns = { "…": 0x85, "’": 0x92, "–": 0x96, "—": 0x97 };
const raised = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻", plainForRaised = "0123456789-";

function pdfRuns(text) {
  const runs = [];
  for (const character of text) {
    const power = raised.indexOf(character), plain = power >= 0 ? plainForRaised[power] : character;
    const code = symbols[plain] ?? windowsSigns[plain] ?? (plain.charCodeAt(0) < 256 ? plain.charCodeAt(0) : 63);
    const kind = symbols[plain] ? "S" : power >= 0 ? "R" : "F";
    if (runs.at(-1)?.kind !== kind) runs.push({ kind, codes: [], text: "" });
    runs.at(-1).codes.push(code);
    runs.at(-1).text += plain;
  }
  return runs;
}

// Thousandths of the font size, of the characters from space to tilde in Helvetica, and of others that we use. Every reader
// has these fonts, whatever fonts the browser's machine has.
const helvetica = ("278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 278 278 " +
  "584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 611 722 667 944 667 667 611 " +
  "278 278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 556 556 333 500 278 556 500 722 500 500 500 " +
  "334 260 334 584").split(" ").map(Number);
const otherWidths = { "δ": 494, "Δ": 612, "β": 549, "≤": 549, "≥": 549, "≈": 549, "·": 278, "×": 584, "…": 1000, "’": 222, "—": 1000 };
function pdfWidth(run, size, bold) {
  const sum = [...run.text].reduce((total, sign) => total + (helvetica[sign.charCodeAt(0) - 32] ?? otherWidths[sign] ?? 556), 0);
  return sum / 1000 * (run.kind === "R" ? 0.7 * size : size) * (bold ? 1.06 : 1);
}

const round = (value) => Number(value.toFixed(3));
const cssColour = (text) => {
  const parts = /^rgba?\(([^)]*)\)/.exec(text)?.[1].split(/[ ,/]+/).map(Number);
  return parts && (parts[3] ?? 1) > 0 ? parts.slice(0, 3).map((part) => round(part / 255)).join(" ") : null;
};

// Path data of our figures (M L H V C Z, absolute or relative) as operators of PDF.
function pdfPath(data) {
  let x = 0, y = 0, startX = 0, startY = 0;
  const out = [];
  const need = { m: 2, l: 2, h: 1, v: 1, c: 6, z: 0 };
  for (const [, letter, rest] of data.matchAll(/([MLHVCZ])([^MLHVCZ]*)/gi)) {
    const kind = letter.toLowerCase(), relative = kind === letter, values = (rest.match(/-?[\d.]+(?:e-?\d+)?/gi) ?? []).map(Number);
    for (let i = 0; i === 0 || i < values.length; i += need[kind]) {
      const at = (k) => values[i + k] + (relative ? (k % 2 === 0 ? x : y) : 0);
      if (kind === "z") { out.push("h"); [x, y] = [startX, startY]; break; }
      if (kind === "h") [x, y] = [at(0), y];
      else if (kind === "v") [x, y] = [x, values[i] + (relative ? y : 0)];
      else if (kind === "c") out.push([0, 1, 2, 3, 4, 5].map((k) => round(at(k))).join(" ") + " c");
      if (kind === "c") [x, y] = [at(4), at(5)];
      else if (kind === "m" || kind === "l") [x, y] = [at(0), at(1)];
      if (kind === "m" && i === 0) { out.push(`${round(x)} ${round(y)} m`); [startX, startY] = [x, y]; }
      else if (kind !== "c") out.push(`${round(x)} ${round(y)} l`);
    }
  }
  return out.join("\n");
}

function pdfShape(element) {
  const number = (name) => Number(element.getAttribute(name) ?? 0);
  if (element.localName === "path") return pdfPath(element.getAttribute("d"));
  if (element.localName === "line") return pdfPath(`M${number("x1")} ${number("y1")}L${number("x2")} ${number("y2")}`);
  if (element.localName === "rect") return `${number("x")} ${number("y")} ${number("width")} ${number("height")} re`;
  if (element.localName !== "circle") return "";
  const r = number("r"), k = 0.5523 * r;
  return pdfPath(`M${number("cx") - r} ${number("cy")}c0 ${-k} ${r - k} ${-r} ${r} ${-r}c${k} 0 ${r} ${r - k} ${r} ${r}` +
                 `c0 ${k} ${k - r} ${r} ${-r} ${r}c${-k} 0 ${-r} ${k - r} ${-r} ${-r}Z`);
}

class PdfPage {
  constructor(width, height) {
    Object.assign(this, { width, height, content: [`1 0 0 -1 0 ${height} cm`], states: new Map() });
  }
  // The name of a graphics state with this opacity.
  state(fill, stroke) {
    const key = `/ca ${fill} /CA ${stroke}`;
    if (!this.states.has(key)) this.states.set(key, `G${this.states.size}`);
    return `/${this.states.get(key)} gs`;
  }
  paint(element) {
    const value = (name) => element.getAttribute(name);
    const fill = value("fill")?.startsWith("url") ? "0.73 0.73 0.73" : cssColour(value("fill") ?? ""), stroke = cssColour(value("stroke") ?? "");
    const operator = fill && stroke ? "B" : fill ? "f" : stroke ? "S" : null, shape = pdfShape(element);
    if (!operator || !shape) return;
    const dashes = (value("stroke-dasharray") ?? "none").replace(/px|,/g, " ").trim();
    this.content.push("q", this.state(Number(value("fill-opacity") ?? 1), Number(value("stroke-opacity") ?? 1)));
    if (fill) this.content.push(`${fill} rg`);
    if (stroke) this.content.push(`${stroke} RG ${parseFloat(value("stroke-width")) || 1} w 1 j [${dashes === "none" ? "" : dashes}] 0 d`);
    this.content.push(shape, operator, "Q");
  }
  write(element) {
    const size = parseFloat(element.getAttribute("font-size")) || 12, bold = element.getAttribute("font-weight") === "bold";
    const runs = pdfRuns(element.textContent), anchor = element.getAttribute("text-anchor");
    const width = runs.reduce((sum, run) => sum + pdfWidth(run, size, bold), 0);
    let x = Number(element.getAttribute("x") ?? 0) - (anchor === "middle" ? width / 2 : anchor === "end" ? width : 0);
    const y = Number(element.getAttribute("y") ?? 0);
    this.content.push("q", this.state(1, 1), `${cssColour(element.getAttribute("fill") ?? "") ?? "0 0 0"} rg`);
    for (const run of runs) {
      const text = run.codes.map((code) => code.toString(16).padStart(2, "0")).join("");
      const font = run.kind === "S" ? "S" : bold ? "B" : "F", raise = run.kind === "R" ? 0.35 * size : 0;
      this.content.push(`BT /${font} ${run.kind === "R" ? 0.7 * size : size} Tf 1 0 0 -1 ${round(x)} ${round(y - raise)} Tm <${text}> Tj ET`);
      x += pdfWidth(run, size, bold);
    }
    this.content.push("Q");
  }
  draw(element) {
    if (element.localName === "title" || element.localName === "defs" || element.localName === "style") return;
    const matrix = element.transform?.baseVal.consolidate()?.matrix;
    this.content.push("q");
    if (matrix) this.content.push(["a", "b", "c", "d", "e", "f"].map((name) => round(matrix[name])).join(" ") + " cm");
    if (element.localName === "text") this.write(element);
    else if (element.localName === "g" || element.localName === "svg") for (const child of element.children) this.draw(child);
    else this.paint(element);
    this.content.push("Q");
  }
  bytes() {
    const content = this.content.join("\n"), fonts = { F: "Helvetica", B: "Helvetica-Bold", S: "Symbol" };
    const font = ([name, base]) => `/${name} << /Type /Font /Subtype /Type1 /BaseFont /${base}${name === "S" ? "" : " /Encoding /WinAnsiEncoding"} >>`;
    const states = [...this.states].map(([key, name]) => `/${name} << ${key} >>`).join(" ");
    const objects = [
      "<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${this.width} ${this.height}] /Contents 4 0 R /Resources << /Font << ` +
      `${Object.entries(fonts).map(font).join(" ")} >> /ExtGState << ${states} >> >> >>`,
      `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    ];
    let file = "%PDF-1.4\n";
    const places = objects.map((text, i) => { const at = file.length; file += `${i + 1} 0 obj\n${text}\nendobj\n`; return at; });
    const table = file.length;
    file += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${places.map((at) => `${String(at).padStart(10, "0")} 00000 n \n`).join("")}` +
            `trailer << /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${table}\n%%EOF\n`;
    return file; // only ASCII: texts are in hexadecimal
  }
}

const figureWriters = {
  SVG: (svg) => new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" }),
  PDF: (svg) => {
    const page = new PdfPage(Number(svg.getAttribute("width")), Number(svg.getAttribute("height")));
    page.draw(svg);
    return new Blob([page.bytes()], { type: "application/pdf" });
  },
  PNG: async (svg) => {
    const image = new Image(), canvas = document.createElement("canvas"), address = URL.createObjectURL(figureWriters.SVG(svg));
    image.src = address;
    await image.decode();
    canvas.width = 3 * svg.getAttribute("width"); // sharp in print, too
    canvas.height = 3 * svg.getAttribute("height");
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(address);
    return new Promise((give) => { canvas.toBlob(give, "image/png"); });
  },
};

async function saveFigure(figure, kind) {
  const file = await figureWriters[kind](composeFigure(figure)), link = document.createElement("a");
  const task = figure.closest("section").querySelector("h2")?.textContent ?? "semfocus";
  link.href = URL.createObjectURL(file);
  link.download = `${task}-${figure.dataset.file ?? "figure"}.${kind.toLowerCase()}`.replace(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
