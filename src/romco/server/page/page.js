"use strict";
// Everything that comes from the service is put in as text, never as markup.
const by = (id) => document.getElementById(id);
const say = (id, text) => { by(id).textContent = text; };
const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes = {}, ...inside) {
  const svg = ["svg", "path", "line", "rect", "circle", "text", "title"].includes(name);
  const made = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}
let numbers = false;  // whether the service predicts numbers: then an error is a distance
const percent = (share) => share === null || share === undefined ? "-"
  : numbers ? Number(share).toPrecision(3) : (100 * share).toFixed(1) + " %";
const whole = (number) => Number(number).toLocaleString("en");
const short = (number) => Math.abs(number) < 0.0005 ? "0" : Number(number).toPrecision(3);
const amount = (number) => Number(number) === 0 ? "0" : Number(number).toPrecision(3);  // of any unit
const time = (seconds) => seconds < 0.001 ? Math.round(1e6 * seconds) + " µs"
  : seconds < 1 ? (1000 * seconds).toFixed(1) + " ms" : seconds.toFixed(2) + " s";

// Asking the service

const token = () => sessionStorage.getItem("token");
async function ask(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (token()) headers.authorization = "Bearer " + token();
  const answer = await fetch(path, { ...options, headers });
  if (answer.status === 401) by("door").hidden = false;
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Error(told.error || "the service answered " + answer.status);
  }
  return answer;
}
const read = async (path, options) => (await ask(path, options)).json();

by("door").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", by("token").value.trim());
  by("door").hidden = true;
  route();
});

// Drawing

function empty(text) { return make("p", {}, text); }
function show(id, ...inside) { by(id).replaceChildren(...inside); }

function frame(label) {
  const svg = make("svg", { viewBox: "0 0 320 150", role: "img", "aria-label": label });
  svg.append(make("line", { class: "axis", x1: 34, y1: 128, x2: 316, y2: 128 }));
  return svg;
}
function place(points, width, height) {
  return points.map(([x, y]) => [34 + 282 * (width ? x / width : 0), 128 - 116 * (height ? y / height : 0)]);
}
function curve(placed, kind = "curve") {
  const path = placed.map(([x, y], k) => (k ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1)).join("");
  return make("path", { class: kind, d: path });
}
function marks(svg, top, left, right, bottom = "0") {
  svg.append(make("text", { x: 30, y: 16, "text-anchor": "end" }, top));
  svg.append(make("text", { x: 30, y: 131, "text-anchor": "end" }, bottom));
  svg.append(make("text", { x: 34, y: 145 }, left));
  svg.append(make("text", { x: 316, y: 145, "text-anchor": "end" }, right));
}
function errors(points) {
  if (!points.length) return empty("No answer yet.");
  const last = points[points.length - 1][0];
  const top = Math.max(0.05, ...points.map((p) => p[1]));
  const svg = frame("error over " + last + " events");
  marks(svg, numbers ? short(top) : Math.round(100 * top) + "%", "first", whole(last) + " events");
  svg.append(line(place(points, last, top)));
  return svg;
}
function line(placed) {
  return placed.length > 1 ? curve(placed)
    : make("circle", { class: "dot", cx: placed[0][0], cy: placed[0][1], r: 4 });
}
function rewards(points) {
  if (!points.length) return empty("No reward yet.");
  const last = points[points.length - 1][0];
  const bottom = Math.min(0, ...points.map((p) => p[1]));  // costs are below 0
  const top = Math.max(0, ...points.map((p) => p[1]));
  const svg = frame("reward over " + last + " events");
  const rounded = (number) => String(Number(number.toPrecision(2)));
  marks(svg, rounded(top), "first", whole(last) + " events", rounded(bottom));
  svg.append(line(place(points.map(([end, y]) => [end, y - bottom]), last, top - bottom)));
  return svg;
}
function soFar(points) {
  let events = 0, wrong = 0;
  return points.map(([end, error]) => {
    wrong += error * (end - events);
    events = end;
    return [end, wrong / end];
  });
}
function calibration(bins) {
  if (!bins.length) return empty("No answer yet.");
  const svg = frame("calibration");
  svg.append(make("line", { class: "axis", x1: 34, y1: 128, x2: 316, y2: 12 }));
  marks(svg, "1", "0", "probability 1");
  const most = Math.max(...bins.map((bin) => bin.events));
  for (const bin of bins) {
    const [[x, y]] = place([[bin.predicted, bin.observed]], 1, 1);
    const dot = make("circle", { class: "dot", cx: x, cy: y, r: 3 + 5 * Math.sqrt(bin.events / most) });
    dot.append(make("title", {}, `said ${short(bin.predicted)}, came true ${short(bin.observed)}, ${whole(bin.events)} events`));
    svg.append(dot);
  }
  return svg;
}
function kinds(counts) {
  const pairs = Object.entries(counts).sort((a, b) => b[1] - a[1]);
  const all = pairs.reduce((sum, pair) => sum + pair[1], 0);
  if (!all) return [empty("No task yet.")];
  const svg = make("svg", { viewBox: "0 0 320 24", role: "img", "aria-label": "kinds of tasks" });
  const list = make("ul", { class: "legend" });
  let begin = 0;
  pairs.forEach(([kind, count], k) => {
    const css = ["a", "b", "c"][Math.min(k, 2)];
    svg.append(make("rect", { class: css, x: begin, y: 0, width: 320 * count / all, height: 24 }));
    list.append(make("li", { class: css }, `${kind}: ${whole(count)}`));
    begin += 320 * count / all;
  });
  return [svg, list];
}
function parts(row, longest) {
  const svg = make("svg", { viewBox: "0 0 150 12", role: "img",
    "aria-label": `shared ${short(row.shared)}, personal ${short(row.personal)}` });
  const a = longest ? 150 * row.shared / longest : 0, b = longest ? 150 * row.personal / longest : 0;
  svg.append(make("rect", { class: "shared", x: 0, y: 1, width: a, height: 10 }));
  svg.append(make("rect", { class: "personal", x: a, y: 1, width: b, height: 10 }));
  return svg;
}
function bars(rows) {
  if (!rows.length) return empty("None.");
  const box = make("div", { class: "bars" });
  const most = Math.max(...rows.map((row) => Math.abs(row.value))) || 1;
  for (const row of rows) {
    const svg = make("svg", { viewBox: "0 0 60 12", "aria-hidden": "true" });
    svg.append(make("rect", { class: row.value < 0 ? "personal" : "shared", x: 0, y: 1,
      width: 60 * Math.abs(row.value) / most, height: 10 }));
    const name = make("span", {}, row.link ? taskLink(row.name) : String(row.name));
    box.append(name, svg, make("span", {}, short(row.value)));
  }
  return box;
}
const taskLink = (name) => make("a", { href: "#/task/" + encodeURIComponent(name) }, String(name));

// News, every second

const rates = [];
let before = null;
let choosing = null;  // whether the service chooses actions and predicts nothing; null: not known yet
function tell(now) {
  const state = by("state");
  state.className = "live";
  state.textContent = "live, change " + whole(now.sequence);
  numbers = now.target === "number";
  say("about", `${now.learner}, durability: ${now.durability}`);
  by("trouble").hidden = !now.trouble;
  const first = choosing === null;
  choosing = Array.isArray(now.actions);
  if (choosing) return tellChoices(now);
  if (first) route();
  if (before && now.time > before.time) {
    const span = now.time - before.time;
    rates.push([(now.events - before.events) / span, (now.predicted - before.predicted) / span]);
    if (rates.length > 120) rates.shift();
    say("learning", whole(Math.max(0, Math.round(rates[rates.length - 1][0]))));
    say("predicting", whole(Math.max(0, Math.round(rates[rates.length - 1][1]))));
    drawRates();
  }
  before = now;
  say("error", percent(now.recent_error));
  const all = `${percent(now.error)} of all ${whole(now.judged)}; `;
  const figures = now.figures;
  const inside = figures && figures.coverage !== undefined
    ? `, ${(100 * figures.coverage).toFixed(1)} % within their 90 % intervals` : "";
  say("error-title", figures ? "mean absolute error, lately" : "running error");
  say("error-note", !now.judged ? "" : all + (figures ? `RMSE ${short(figures.rmse)}${inside}`
    : `log loss ${short(now.log_loss || 0)}`));
  by("calibration").hidden = Boolean(figures);
  say("latency", now.predicting ? time(now.predicting.median) : "-");
  say("latency-note", now.predicting ? "99 % within " + time(now.predicting.p99)
    + (now.learning ? "; to learn " + time(now.learning.median) : "") : "");
  say("pending", whole(now.pending));
  say("pending-note", `${whole(now.dropped)} dropped, ${whole(now.expired)} expired`);
  say("tasks", whole(now.tasks));
  say("tasks-note", `${whole(now.features)} features, rank ${now.rank}`);
  show("error-chart", errors(now.curve));
  show("calibration-chart", calibration(now.calibration));
  show("kinds", ...kinds(now.kinds));
}
function tellChoices(now) {
  by("choosing").hidden = false;
  by("whole").hidden = by("one").hidden = true;
  if (before && now.time > before.time) {
    const span = now.time - before.time;
    say("choosing-rate", whole(Math.max(0, Math.round((now.predicted - before.predicted) / span))));
    say("reward-rate", whole(Math.max(0, Math.round((now.events - before.events) / span))));
  }
  before = now;
  say("mean-reward", now.mean_reward === null ? "-" : amount(now.mean_reward));
  say("reward-note", `of ${whole(now.rewards)}`);
  say("choose-latency", now.predicting ? time(now.predicting.median) : "-");
  say("choose-note", now.predicting ? "99 % within " + time(now.predicting.p99) : "");
  say("choice-pending", whole(now.pending));
  say("choice-note", `${whole(now.dropped)} dropped`);
  say("people", whole(now.tasks));
  show("reward-chart", rewards(now.curve));
  by("actions").tBodies[0].replaceChildren(...now.actions.map((row) => make("tr", {},
    make("td", {}, row.action), make("td", {}, whole(row.offered)), make("td", {}, whole(row.chosen)),
    make("td", {}, (100 * row.chosen / Math.max(1, now.choices)).toFixed(1) + " %"),
    make("td", {}, whole(row.rewards)), make("td", {}, row.rewards ? amount(row.earned / row.rewards) : "-"),
    make("td", {}, amount(row.earned)))));
}
function drawRates() {
  const top = Math.max(1, ...rates.flat());
  const svg = frame("events per second");
  marks(svg, whole(Math.round(top)), rates.length + " s ago", "now");
  for (const k of [0, 1]) {
    const placed = place(rates.map((rate, x) => [x, rate[k]]), Math.max(1, rates.length - 1), top);
    svg.append(curve(placed, k ? "curve second" : "curve"));
  }
  show("rate-chart", svg, make("ul", { class: "legend" }, make("li", { class: "a" }, "learned"),
    make("li", { class: "b" }, "predicted")));
}
async function listen() {
  for (;;) {
    try {
      tell(await read("/v1/status"));
    } catch (error) {
      by("state").className = "lost";
      by("state").textContent = "not connected";
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

// The table of tasks

const asked = { search: "", order: "kind", descending: false, limit: 20 }; // different first
async function list() {
  const query = new URLSearchParams(asked);
  const told = await read("/v1/tasks?" + query).catch((error) => ({ total: 0, tasks: [], error }));
  const longest = Math.max(0, ...told.tasks.map((row) => row.shared + row.personal));
  by("table").tBodies[0].replaceChildren(...told.tasks.map((row) => make("tr", {},
    make("td", {}, taskLink(row.task)), make("td", {}, parts(row, longest)),
    make("td", {}, row.kind), make("td", {}, whole(row.events)), make("td", {}, percent(row.error)),
    make("td", {}, short(row.shared)), make("td", {}, short(row.personal)))));
  say("found", whole(told.total) + " found");
  by("more").hidden = told.total <= told.tasks.length || asked.limit >= 1000;
  for (const button of by("table").querySelectorAll("th button")) {
    const chosen = button.dataset.order === asked.order;
    button.parentElement.setAttribute("aria-sort",
      chosen ? (asked.descending ? "descending" : "ascending") : "none");
  }
}
by("table").tHead.addEventListener("click", (event) => {
  const order = event.target.dataset.order;
  if (!order) return;
  asked.descending = asked.order === order ? !asked.descending : order !== "task";
  asked.order = order;
  list();
});
let typing = 0;
by("search").addEventListener("input", (event) => {
  clearTimeout(typing);
  asked.search = event.target.value;
  typing = setTimeout(list, 150);
});
by("more").addEventListener("click", () => {
  asked.limit = Math.min(1000, 2 * asked.limit);
  list();
});

// One task

async function one(name) {
  say("one-name", name);
  try {
    const task = await read("/v1/tasks/" + encodeURIComponent(name));
    const since = task.since === null ? "" : ` Different since change ${whole(task.since)}.`;
    say("one-about", `Kind: ${task.kind}. ${whole(task.events)} events learned, error ${percent(task.error)} of ${whole(task.judged)} judged.${since}`);
    show("one-curve", errors(soFar(task.curve)));
    show("one-parts", parts(task, task.shared + task.personal), make("ul", { class: "legend" },
      make("li", { class: "a" }, "shared " + short(task.shared)),
      make("li", { class: "b" }, "personal " + short(task.personal))));
    show("one-nearest", bars(task.nearest.map((other) => ({ name: other.task, value: other.cosine, link: true }))));
    show("one-features", bars(task.features.map((f) => ({ name: f.feature, value: f.weight }))));
  } catch (error) {
    say("one-about", error.message);
    for (const id of ["one-curve", "one-parts", "one-nearest", "one-features"]) show(id);
  }
}

// Trying

by("try").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const x = JSON.parse(by("try-x").value);
    const body = JSON.stringify({ task: by("try-task").value, x });
    const sent = { method: "POST", body, headers: { "content-type": "application/json" } };
    const told = await read("/v1/predict", sent);
    const chance = told.probability !== null ? `, probability ${short(told.probability)}`
      : told.low === undefined ? "" : `, nine of ten between ${short(told.low)} and ${short(told.high)}`;
    const unused = told.unknown ? `; never learned, so not used: ${told.unknown.join(", ")}` : "";
    say("try-answer", `${told.label === null ? "no label known yet" : told.label}${chance}, margin ${short(told.margin)}, after change ${whole(told.version)}${unused}`);
    if (told.label === null) return show("try-why");
    const why = await read("/v1/explain", sent);
    show("try-why", bars(why.features.slice(0, 10).map((f) => ({ name: f.feature, value: f.adds }))),
      make("p", { class: "note" }, `What features add to the margin${why.label === null ? "" : " for " + why.label} (${short(why.margin)}); without features it is ${short(why.intercept)}.`));
  } catch (error) {
    say("try-answer", error.message);
    show("try-why");
  }
});

function route() {
  if (choosing !== false) return;
  const found = location.hash.match(/^#\/task\/(.+)$/);
  by("one").hidden = !found;
  by("whole").hidden = !!found;
  if (found) one(decodeURIComponent(found[1]));
  else list();
}
addEventListener("hashchange", route);
setInterval(() => { if (!document.hidden && by("door").hidden) route(); }, 5000);
route();
listen();
