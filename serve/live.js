"use strict";
/* The live page. It keeps every run of the store, asks for what changed when the server says that something did, and
 * draws only what is seen. Texts of the store enter the page as text, never as markup; the report, which comes as markup,
 * is made by the same program that makes this page. */

const byId = (id) => document.getElementById(id);
const runs = new Map();
let version = 0, finished = -1, shown = 100, opened = null, openedIn = "runs", asking = false, askAgain = false;
const ROWS = 100, QUEUED = 20;

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

const percent = (value) => (value === undefined ? "–" : `${value.toFixed(2)} %`);

function duration(seconds) {
  if (seconds === undefined) return "–";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round(seconds % 3600 / 60)} min`;
}

function nameOf(run) {
  return `${run.task}, ${run.attention}, seed ${run.seed}`;
}

function opener(run, text) {
  const button = element("button", text, "link");
  button.type = "button";
  button.dataset.run = run.id;
  button.setAttribute("aria-label", `${text}: show curve and settings`);
  return button;
}

function row(cells) {
  const made = element("tr");
  for (const [content, className] of cells) {
    const cell = element("td", undefined, className);
    cell.append(content);
    made.append(cell);
  }
  return made;
}

/* A table whose rows are replaced keeps the focus where it was. */
function replaceRows(body, rows) {
  const focused = body.contains(document.activeElement) ? document.activeElement.dataset.run : null;
  body.replaceChildren(...rows);
  if (focused) body.querySelector(`[data-run="${focused}"]`)?.focus({ preventScroll: true });
}

function drawState(all) {
  const count = (status) => all.filter((run) => run.status === status).length;
  const over = count("done") + count("diverged") + count("failed");
  const parts = [`${over} of ${all.length} runs are over`];
  for (const [status, words] of [["running", "under way"], ["waiting", "waiting"], ["unfinished", "unfinished"], ["diverged", "diverged"], ["failed", "failed"]])
    if (count(status) > 0) parts.push(`${count(status)} ${words}`);
  byId("state").textContent = all.length === 0 ? "The store has no runs yet" : parts.join(", ");
  byId("overall").max = Math.max(1, all.length);
  byId("overall").value = over;
  document.title = all.length === 0 ? "semfocus: live" : `${over}/${all.length} – semfocus`;
}

function drawRunning(all) {
  const under = all.filter((run) => run.status === "running");
  const section = byId("running");
  byId("running-none").hidden = under.length > 0;
  section.querySelector(".scroll").hidden = under.length === 0;
  replaceRows(section.querySelector("tbody"), under.map((run) => {
    const bar = element("progress");
    bar.max = Math.max(1, run.asked);
    bar.value = run.epochs;
    bar.setAttribute("aria-label", `${run.epochs} of ${run.asked} epochs`);
    return row([[opener(run, nameOf(run))], [bar], [`${run.epochs} of ${run.asked}`, "number"], [duration(run.left), "number"],
      [percent(run.train), "number"], [percent(run.heldout), "number"]]);
  }));
}

function drawQueue(all) {
  const waiting = all.filter((run) => run.status === "waiting");
  byId("queue-none").hidden = waiting.length > 0;
  const items = waiting.slice(0, QUEUED).map((run) => {
    const item = element("li");
    item.append(opener(run, nameOf(run)));
    return item;
  });
  byId("queue-more").hidden = waiting.length <= QUEUED;
  byId("queue-more").textContent = `and ${waiting.length - QUEUED} more`;
  replaceRows(byId("queue-list"), items);
}

function fillSelect(select, values) {
  const before = select.value;
  const wanted = ["", ...[...new Set(values)].sort()];
  if (wanted.length === select.options.length && wanted.every((value, i) => select.options[i].value === value)) return;
  select.replaceChildren(...wanted.map((value) => {
    const option = element("option", value || "all");
    option.value = value;
    return option;
  }));
  select.value = wanted.includes(before) ? before : "";
}

function matches(run, words, task, status) {
  if ((task && run.task !== task) || (status && run.status !== status)) return false;
  const text = `${run.id} ${run.task} ${run.attention} ${run.seed} ${run.status} ${run.name} ${run.tags}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function drawTable(all) {
  fillSelect(byId("filter-task"), all.map((run) => run.task));
  fillSelect(byId("filter-status"), all.map((run) => run.status));
  const words = byId("filter-text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = all.filter((run) => matches(run, words, byId("filter-task").value, byId("filter-status").value));
  byId("filter-count").textContent = `${chosen.length} of ${all.length} runs`;
  byId("more").hidden = chosen.length <= shown;
  replaceRows(byId("runs").querySelector("tbody"), chosen.slice(0, shown).map((run) => row([
    [opener(run, run.id)], [run.task], [run.attention], [String(run.seed), "number"], [run.status, `state-${run.status}`],
    [String(run.epochs), "number"], [run.converged > 0 ? String(run.converged) : "–", "number"], [percent(run.train), "number"],
    [percent(run.heldout), "number"], [[run.name, run.tags].filter(Boolean).join(" · ")]])));
}

function draw() {
  const all = [...runs.values()];
  drawState(all);
  drawRunning(all);
  drawQueue(all);
  drawTable(all);
}

/* Curves of one run. */
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 420, HEIGHT = 250, LEFT = 52, TOP = 10, RIGHT = 8, BOTTOM = 40;

function svg(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/* What an axis shows: percents in whole tens, losses from 0 on. */
function span(values, percents) {
  const least = values.reduce((a, b) => Math.min(a, b)), most = values.reduce((a, b) => Math.max(a, b));
  if (!percents) return [Math.min(least, 0), Math.max(most, 1e-9)];
  const low = 10 * Math.floor(Math.min(least, 99) / 10);
  return [low, Math.max(10 * Math.ceil(most / 10), low + 10)];
}

function drawCurves(title, unit, train, heldout) {
  const figure = element("figure");
  const caption = element("figcaption");
  caption.append(element("b", title), " training (line) and held out (dashes), by epoch");
  const reading = element("p", "", "reading");
  reading.setAttribute("role", "status");
  const drawing = svg("svg", { class: "figure", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", tabindex: "0",
    "aria-label": `${title}: ${train.length} epochs, last ${train.at(-1)}${unit} training, ${heldout.at(-1)}${unit} held out. Arrow keys read values.` });
  const [low, high] = span([...train, ...heldout], unit !== "");
  const x = (i) => LEFT + (train.length > 1 ? i / (train.length - 1) : 0.5) * (WIDTH - LEFT - RIGHT);
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  drawing.append(svg("rect", { class: "frame", x: LEFT, y: TOP, width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM }));
  for (const share of [0, 0.5, 1]) {
    const value = low + share * (high - low);
    drawing.append(svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, unit ? String(value) : value.toPrecision(2)));
  }
  drawing.append(svg("text", { x: LEFT, y: HEIGHT - BOTTOM + 18 }, "1"),
    svg("text", { x: WIDTH - RIGHT, y: HEIGHT - BOTTOM + 18, "text-anchor": "end" }, String(train.length)),
    svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "epoch"));
  const path = (curve) => curve.map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const last = train.length - 1; // a dot, because one epoch makes no line
  for (const [name, curve] of [["train", train], ["heldout", heldout]])
    drawing.append(svg("path", { class: name, d: path(curve) }), svg("circle", { class: `${name} last`, cx: x(last), cy: y(curve[last]), r: 3 }));
  const cursor = svg("path", { class: "cursor", d: "" });
  drawing.append(cursor);
  let at = train.length - 1;
  const read = () => {
    cursor.setAttribute("d", `M${x(at)} ${TOP}V${HEIGHT - BOTTOM}`);
    reading.textContent = `epoch ${at + 1}: ${train[at]}${unit} training, ${heldout[at]}${unit} held out`;
  };
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
    at = Math.max(0, Math.min(train.length - 1, Math.round(place * (train.length - 1))));
    read();
  });
  drawing.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    at = Math.max(0, Math.min(train.length - 1, at + step));
    read();
  });
  figure.append(caption, drawing, reading);
  return figure;
}

async function drawOne(focus) {
  const id = opened;
  const response = await fetch(`run?id=${id}`, { cache: "no-store" });
  if (!response.ok || opened !== id) return;
  const one = await response.json();
  const run = runs.get(id);
  byId("one").hidden = false;
  byId("one-title").textContent = run ? `${nameOf(run)} (${id})` : id;
  byId("one-note").textContent = [run && `${run.status}, ${one.train_loss.length}${one.asked ? ` of ${one.asked}` : ""} epochs`, one.message, one.note].filter(Boolean).join(". ");
  const curves = one.train_loss.length === 0 ? [element("p", "No epoch is done yet.", "note")]
    : [drawCurves("Accuracy", " %", one.train_accuracy, one.heldout_accuracy), drawCurves("Loss", "", one.train_loss, one.heldout_loss)];
  if (!byId("one-curves").contains(document.activeElement)) byId("one-curves").replaceChildren(...curves);
  byId("one").querySelector("tbody").replaceChildren(...Object.entries(one.settings).map(([name, value]) => row([[name], [value]])));
  if (!focus) return;
  byId("one").scrollIntoView({ block: "start" });
  byId("one-title").focus({ preventScroll: true });
}

function open(button) {
  opened = button.dataset.run;
  openedIn = button.closest("section").id;
  drawOne(true);
}

/* Back to the row that it was opened from, or where that is gone to the run's other row. */
function close() {
  const rows = [openedIn, "runs"].map((section) => document.querySelector(`#${section} button[data-run="${opened}"]`));
  opened = null;
  byId("one").hidden = true;
  (rows.find((button) => button?.checkVisibility()) ?? byId("runs-title")).focus();
}

/* The report is made anew when runs have ended, but not under the reader's eyes and hands. */
let reportWanted = false, reportBusy = false;

async function renewReport() {
  const parts = byId("report-parts");
  if (!reportWanted || reportBusy) return;
  if (parts.contains(document.activeElement) || parts.matches(":hover")) return;
  reportBusy = true;
  reportWanted = false;
  const began = performance.now();
  try {
    const response = await fetch("report", { cache: "no-store" });
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    const made = new DOMParser().parseFromString(text, "text/html");
    const scrolled = window.scrollY;
    parts.replaceChildren(...made.body.childNodes);
    semfocusEnhance(parts);
    window.scrollTo(0, scrolled);
    byId("report-state").textContent = text === "" ? "There is nothing to report yet."
      : `Of the runs that were over at ${new Date().toLocaleTimeString()}. ‘semfocus report’ writes it to a file.`;
  } catch (error) {
    byId("report-state").textContent = error.message;
  }
  setTimeout(() => { reportBusy = false; renewReport(); }, Math.max(3000, 5 * (performance.now() - began)));
}

async function ask() {
  if (asking) {
    askAgain = true;
    return;
  }
  asking = true;
  try {
    const response = await fetch(`runs?since=${version}`, { cache: "no-store" });
    if (!response.ok) throw new Error(await response.text());
    const news = await response.json();
    if (news.all) runs.clear();
    for (const run of news.runs) runs.set(run.id, run);
    version = news.version;
    byId("problem").hidden = news.problem === "";
    byId("problem").textContent = news.problem;
    draw();
    if (opened && news.runs.some((run) => run.id === opened)) drawOne(false);
    if (news.finished !== finished) {
      finished = news.finished;
      reportWanted = true;
      renewReport();
    }
  } catch (error) {
    byId("connection").textContent = error.message;
  }
  asking = false;
  if (askAgain) {
    askAgain = false;
    ask();
  }
}

function listen() {
  const events = new EventSource("events");
  events.onmessage = () => ask();
  events.onopen = () => {
    byId("connection").textContent = "";
    byId("connection").className = "";
  };
  events.onerror = () => {
    byId("connection").textContent = "The server does not answer; the page shows what was known last.";
    byId("connection").className = "lost";
  };
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.link[data-run]");
  if (button) open(button);
});
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("input", () => { shown = ROWS; drawTable([...runs.values()]); });
byId("more").addEventListener("click", () => { shown += 5 * ROWS; drawTable([...runs.values()]); });
byId("one-close").addEventListener("click", close);
setInterval(renewReport, 1000);
listen();
