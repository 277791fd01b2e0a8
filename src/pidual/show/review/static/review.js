// The review page. All text comes into the page as text (textContent), never as HTML.
"use strict";

const MATCHES = 50; // classes that are listed at a time
const WAIT = 60_000; // milliseconds for a reply
const FIELDS = ["show", "class", "annotator", "low", "high", "resting", "everything"];
const at = id => document.getElementById(id);
const state = { token: "", reviewer: "", classes: [], hasInputs: true, ofSets: false, current: null, busy: false, selected: 0, matches: [] };

// --- the server ---

const isList = value => Array.isArray(value);
const isWhole = value => Number.isInteger(value);
const isLabel = label => label === null || (isWhole(label.row) && isWhole(label.place) && typeof label.item === "string" &&
  isList(label.answers) && isList(label.unusual));
const REPLIES = { // what the page relies on in each
  about: found => typeof found.run === "string" && isList(found.classes),
  next: found => isLabel(found.label) && isWhole(found.progress.decided) && isWhole(found.progress.total),
  item: found => isList(found.unusual) && isList(found.columns),
  annotators: found => isList(found.annotators),
  decide: found => isWhole(found.id),
  undo: found => isLabel(found.label),
};

class NoReply extends Error {}

// All that comes from the server comes through here: a reply that is missing, cut off or of another form is an error.
async function ask(path, body) {
  const options = { headers: { Authorization: `Bearer ${state.token}` }, cache: "no-store", signal: AbortSignal.timeout(WAIT) };
  if (body) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let reply, text;
  try {
    reply = await fetch(`api/${path}`, options);
    text = await reply.text();
  } catch {
    throw new NoReply("The server does not answer. Confirmed decisions are kept; start `pidual review` again and open its new address.");
  }
  let found = null;
  let fits = false;
  try {
    found = JSON.parse(text);
    fits = Boolean(REPLIES[path.split("?")[0]](found));
  } catch { /* no JSON, or of another form */ }
  if (!reply.ok) throw new Error(found?.error || `The server answers with status ${reply.status}; its terminal says why.`);
  if (!fits) throw new NoReply("The server does not answer as it should. Confirmed decisions are kept; reload the page.");
  return found;
}

// One change at a time; a change whose answer is lost is sent again under the same name, and made once.
async function change(path, body) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const request = Array.from(bytes, byte => byte.toString(16).padStart(2, "0")).join("");
  const sent = { ...body, reviewer: state.reviewer, request };
  try {
    return await ask(path, sent);
  } catch (error) {
    if (!(error instanceof NoReply)) throw error;
    await new Promise(done => setTimeout(done, 500));
    return ask(path, sent);
  }
}

async function working(work) {
  if (state.busy) return;
  state.busy = true;
  try {
    await work();
    at("error").hidden = true;
  } catch (error) {
    at("error").textContent = error.message;
    at("error").hidden = false;
  } finally {
    state.busy = false;
  }
}

// --- what is shown ---

const percent = share => (share > 0.999 && share < 1 ? "over 99.9%" : `${(100 * share).toFixed(share > 0.99 && share < 1 ? 1 : 0)}%`);
const likely = share => (share === null ? "" : share > 0.999 ? "over 99.9%" : percent(share)); // never certain
const count = number => number.toLocaleString("en");
const short = (text, most = 80) => (text.length > most ? `${text.slice(0, most)}…` : text);
const measured = value => (value === null ? "–" : String(Number(value.toPrecision(4))));

function put(id, text) {
  at(id).textContent = text;
}

function make(tag, text, className) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

function showProgress(progress) {
  const { sample } = progress; // the labels that come first, in and beyond the list
  const list = `${count(progress.decided)} of ${count(progress.total)}`;
  put("progress", sample ? `${count(sample.decided)} of ${count(sample.total)} in the sample, ${list} in the list decided` : `${list} decided`);
  const shown = sample && sample.decided < sample.total ? sample : progress;
  at("bar").max = Math.max(1, shown.total);
  at("bar").value = shown.decided;
  const { precision } = progress;
  put("precision", precision === null ? "" :
    `${count(progress.changed)} of ${count(progress.changed + progress.kept)}${sample ? " in the list" : ""} were wrong: ${percent(precision.share)} ` +
    `(95% interval ${percent(precision.low)} to ${percent(precision.high)})` +
    (progress.unsure ? `; ${count(progress.unsure)} undecidable` : ""));
}

// What the run keeps of an item is shown at once, and then what its inputs hold.
function showItem(label) {
  const kept = { picture: label.picture, picture_type: "image/png", pixelated: true, text: label.text, unusual: label.unusual, columns: [] };
  const bare = !kept.picture && !kept.text && !kept.unusual.length;
  put("item", label.item);
  showSeen({ ...kept, note: bare ? "Loading…" : null });
  ask(`item?row=${label.row}`).then(seen => {
    if (state.current !== label) return; // the reviewer has gone on
    const found = seen.picture || seen.text || seen.columns.length;
    showSeen(found ? seen : { ...kept, note: seen.note || (bare ? "This item cannot be shown." : null) });
  }, error => {
    if (state.current === label) showSeen({ ...kept, note: error.message });
  });
}

function showSeen(seen) {
  at("picture").hidden = !seen.picture;
  if (seen.picture) {
    at("picture").src = `data:${seen.picture_type};base64,${seen.picture}`;
    at("picture").alt = `Item ${at("item").textContent.slice(0, 80)}`;
    at("picture").classList.toggle("pixelated", seen.pixelated);
  }
  at("text").hidden = !seen.text;
  put("text", seen.text || "");
  at("unusual").hidden = !seen.unusual.length;
  at("unusual").tBodies[0].replaceChildren(...seen.unusual.map(column =>
    line(column.column, measured(column.value), `${measured(column.low)} to ${measured(column.high)}`)));
  const { columns } = seen;
  at("row").hidden = !columns.length;
  at("row").open = columns.length > 0 && !seen.unusual.length;
  put("row-title", seen.unusual.length ? "The whole row" : "From the table");
  const more = seen.more_columns ? [line(`and ${count(seen.more_columns)} more columns`, "")] : [];
  at("columns").tBodies[0].replaceChildren(...columns.map(column => line(column.column, column.value)), ...more);
  at("note").hidden = !seen.note;
  put("note", seen.note || "");
}

function line(name, value, usual) {
  const row = document.createElement("tr");
  row.append(make("th", name), make("td", value));
  if (usual !== undefined) row.append(make("td", usual, "muted"));
  row.firstChild.scope = "row";
  return row;
}

function showSaid(label) {
  const { classes } = state;
  put("given", classes[label.given]);
  put("who", label.annotator === null ? "" : `by ${label.annotator}`);
  put("suggested", classes[label.suggested]);
  put("sure", likely(label.suggested_probability));
  at("predicted-row").hidden = !state.hasInputs;
  put("predicted", classes[label.predicted]);
  put("predicted-sure", likely(label.predicted_probability));
  const quality = label.quality < 0.001 ? "under 0.001" : label.quality.toFixed(label.quality < 0.01 ? 3 : 2);
  put("quality", `${quality}${label.looks_wrong ? "" : label.rests ? " (rests on this one answer)" : " (does not look wrong)"}`);
  at("answers-row").hidden = !label.answers.length;
  at("answers").replaceChildren(...label.answers.map(answer => {
    const line = make("li", `${classes[answer.label]} `);
    if (answer.annotator !== null) line.append(make("span", `by ${answer.annotator}`, "muted"));
    return line;
  }), ...(label.more_answers ? [make("li", `and ${count(label.more_answers)} more`, "muted")] : []));
  at("reason-row").hidden = !label.reason;
  put("reason", label.reason);
  at("decided-row").hidden = !label.decided;
  if (label.decided) put("decided", `${inWords(label.decided)} by ${label.decided.reviewer}, ${label.decided.at.slice(0, 16).replace("T", " ")} UTC`);
}

function inWords(decision) {
  return { keep: "kept", unsure: "can’t tell", change: `changed to ${short(decision.label || "")}` }[decision.decision];
}

function showLabel(label, focus) {
  state.current = label;
  at("label").hidden = label === null;
  at("empty").hidden = label !== null;
  at("actions").hidden = false;
  for (const id of ["keep", "take", "other", "unsure"]) at(id).disabled = label === null;
  if (label === null) {
    const wanted = at("show").value;
    put("empty", wanted === "undecided" ? "Nothing is left to decide here. Thank you." : "No label matches this filter.");
    put("keep-label", "");
    put("take-label", "");
    return;
  }
  showItem(label);
  showSaid(label);
  put("keep-label", short(state.classes[label.given], 40));
  const drops = label.given % 2 === 1; // of sets: classes come in pairs, without and with
  put("take-word", !state.ofSets ? "Take" : drops ? "Drop" : "Add");
  put("take-label", short(state.classes[state.ofSets ? label.given | 1 : label.suggested], 40));
  at("take").disabled = taken(label) === label.given;
  if (focus) at("label").focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

async function load(place, back = false) {
  const found = await ask(`next?${question({ place, ...(back ? { back: 1 } : {}) })}`);
  showProgress(found.progress);
  showLabel(found.label, !document.activeElement || document.activeElement === document.body);
  return found;
}

// --- filters ---

function question(more) {
  const query = new URLSearchParams({ reviewer: state.reviewer, show: at("show").value, ...more });
  const name = at("class").value;
  if (name) query.set("label", state.classes.indexOf(name));
  for (const id of ["annotator", "low", "high"]) if (at(id).value) query.set(id, at(id).value);
  for (const id of ["resting", "everything"]) if (at(id).checked) query.set(id, "1");
  return query;
}

function keepFilter() {
  const kept = Object.fromEntries(FIELDS.map(id => [id, at(id).type === "checkbox" ? at(id).checked : at(id).value]));
  sessionStorage.setItem("pidual-filter", JSON.stringify(kept));
  const set = FIELDS.filter(id => id !== "show" && kept[id]).length + (kept.show === "undecided" ? 0 : 1);
  put("filtered", set ? `(${set} set)` : "");
}

function restoreFilter() {
  let kept = {};
  try {
    kept = JSON.parse(sessionStorage.getItem("pidual-filter")) || {};
  } catch { /* as if there were none */ }
  for (const id of FIELDS) {
    if (at(id).type === "checkbox") at(id).checked = kept[id] === true;
    else if (typeof kept[id] === "string") at(id).value = kept[id];
  }
  if (at("class").value && !state.classes.includes(at("class").value)) at("class").value = "";
  keepFilter();
}

function applyFilter() {
  working(async () => {
    const name = at("class").value;
    if (name && !state.classes.includes(name)) throw new Error(`There is no class “${short(name)}”; choose one of the list.`);
    keepFilter();
    const found = await load(0);
    say(`${count(found.progress.total)} labels by this filter.`);
  });
}

let typed = 0;
function suggestAnnotators() {
  clearTimeout(typed);
  typed = setTimeout(async () => {
    const found = await ask(`annotators?${new URLSearchParams({ text: at("annotator").value.slice(0, 60) })}`).catch(() => null);
    if (found) at("annotators").replaceChildren(...found.annotators.map(option));
  }, 150);
}

function option(name) {
  const element = document.createElement("option");
  element.value = name;
  return element;
}

// --- decisions ---

function say(text) {
  put("said", text);
}

function decide(decision, label = null) {
  const { current } = state;
  if (!current) return;
  working(async () => {
    await change("decide", { row: current.row, decision, label });
    const found = await load(current.place + 1);
    const words = inWords({ decision, label: label === null ? "" : state.classes[label] });
    say(`${words[0].toUpperCase()}${words.slice(1)}. ${count(left(found.progress))} left.`);
  });
}

function left({ sample, undecided }) {
  return sample && sample.decided < sample.total ? sample.total - sample.decided : undecided;
}

// What the key T takes: the consensus or, of a set, the class added or dropped.
const taken = label => (state.ofSets ? label.given ^ 1 : label.suggested);

function take(label) {
  if (!state.current) return;
  if (label === state.current.given) decide("keep");
  else decide("change", label);
}

function undo() {
  working(async () => {
    const { label } = await change("undo", {});
    if (label === null) {
      say("You have nothing to undo.");
      return;
    }
    const found = await ask(`next?${question({ place: label.place })}`);
    showProgress(found.progress);
    showLabel(label, false);
    say("Undone.");
  });
}

const ACTIONS = {
  keep: () => decide("keep"),
  take: () => { if (state.current && taken(state.current) !== state.current.given) take(taken(state.current)); },
  other: () => { if (!state.ofSets) openChoice(); },
  unsure: () => decide("unsure"),
  skip: () => working(() => load(state.current ? state.current.place + 1 : 0)),
  back: () => working(() => load(state.current ? state.current.place : 0, true)),
  undo,
};
const KEYS = { k: "keep", t: "take", l: "other", u: "unsure", s: "skip", z: "undo", ArrowRight: "skip", ArrowLeft: "back" };

function pressed(event) {
  const inField = event.target.closest("input, select, textarea, dialog");
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || inField) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key === "f") {
    event.preventDefault();
    at("filters").open = true;
    at("show").focus();
  } else if (KEYS[key] && !at("actions").hidden) {
    event.preventDefault();
    ACTIONS[KEYS[key]]();
  }
}

// --- another label ---

function openChoice() {
  if (!state.current || state.busy) return;
  at("search").value = "";
  search();
  at("choose").showModal();
  at("search").focus();
}

function search() {
  const wanted = at("search").value.trim().toLowerCase();
  const found = state.classes.map((name, code) => [name.toLowerCase().indexOf(wanted), code]).filter(([place]) => place >= 0);
  found.sort((one, other) => Math.min(one[0], 1) - Math.min(other[0], 1)); // those that begin so come first
  state.matches = found.slice(0, MATCHES).map(([, code]) => code);
  put("more-matches", found.length > MATCHES ? `and ${count(found.length - MATCHES)} more: type to search` : found.length ? "" : "No class has this in its name.");
  at("matches").replaceChildren(...state.matches.map((code, number) => {
    const line = make("li", state.classes[code]);
    line.id = `match-${number}`;
    line.setAttribute("role", "option");
    if (code === state.current.given) line.append(make("span", " (given)"));
    line.addEventListener("click", () => choose(number));
    return line;
  }));
  select(0);
}

function select(number) {
  state.selected = Math.max(0, Math.min(number, state.matches.length - 1));
  [...at("matches").children].forEach((line, place) => {
    line.setAttribute("aria-selected", String(place === state.selected));
    if (place === state.selected) line.scrollIntoView({ block: "nearest" });
  });
  if (state.matches.length) at("search").setAttribute("aria-activedescendant", `match-${state.selected}`);
  else at("search").removeAttribute("aria-activedescendant");
}

function choose(number) {
  if (!state.matches.length) return;
  at("choose").close();
  take(state.matches[number]);
}

function pressedInSearch(event) {
  const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 };
  if (event.key in moves) select(state.selected + moves[event.key]);
  else if (event.key === "Enter") choose(state.selected);
  else return;
  event.preventDefault();
}

// --- the beginning ---

function askName() {
  at("name-input").value = state.reviewer;
  at("name").showModal();
  at("name-input").select();
}

function named(event) {
  event.preventDefault();
  const name = at("name-input").value.split(/\s+/).join(" ").trim();
  if (!name) return;
  state.reviewer = name;
  localStorage.setItem("pidual-reviewer", name);
  put("reviewer", name);
  at("name").close();
  working(() => load(0));
}

function start() {
  state.token = new URLSearchParams(location.hash.slice(1)).get("token") || "";
  state.reviewer = localStorage.getItem("pidual-reviewer") || "";
  put("reviewer", state.reviewer);
  working(async () => {
    const about = await ask("about");
    state.classes = about.classes;
    state.hasInputs = about.has_inputs;
    state.ofSets = about.of_sets;
    at("other").hidden = at("other-key").hidden = state.ofSets;
    put("run", about.run);
    document.title = `Review · ${about.run}`;
    at("by").hidden = !about.has_annotators;
    at("resting-label").hidden = !about.n_resting;
    put("n-resting", count(about.n_resting));
    at("classes").replaceChildren(...about.classes.map(option));
    restoreFilter();
    if (state.reviewer) await load(0);
    else askName();
  });
}

for (const [id, act] of Object.entries(ACTIONS)) at(id).addEventListener("click", act);
document.addEventListener("keydown", pressed);
at("filter").addEventListener("submit", event => { event.preventDefault(); applyFilter(); });
at("clear").addEventListener("click", () => { at("filter").reset(); applyFilter(); });
at("annotator").addEventListener("input", suggestAnnotators);
at("search").addEventListener("input", search);
at("search").addEventListener("keydown", pressedInSearch);
at("choose-cancel").addEventListener("click", () => at("choose").close());
at("rename").addEventListener("click", askName);
at("name-form").addEventListener("submit", named);
at("name").addEventListener("cancel", event => { if (!state.reviewer) event.preventDefault(); });
window.addEventListener("hashchange", start);
start();
