"use strict";
// Filters the rows embedded in the page. Texts of models and data sets are only ever set as text.
const rows = JSON.parse(document.getElementById("rollouts").textContent);
const form = document.getElementById("filters"), body = document.querySelector("#table tbody");
const columns = ["stage", "step", "domain", "problem_id", "sample", "outcome", "decided_by", "reward", "advantage", "tokens"];
const numeric = ["step", "sample", "reward", "advantage", "tokens"], perPage = 100;
let page = 0;

const element = (name, text, kind) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
};
for (const name of columns)
  document.querySelector("#table thead tr").append(element("th", name.replace("_", " "), numeric.includes(name) ? "n" : ""));
for (const name of ["stage", "domain", "outcome", "decided_by"]) {
  const values = [...new Set(rows.map(row => row[name]))].sort();
  if (name === "outcome") values.push("truncated");
  for (const value of ["", ...values]) {
    const option = element("option", value || "all");
    option.value = value;
    form.elements[name].append(option);
  }
}

const within = (value, range) => {
  const [low, high] = range.includes(":") ? range.split(":") : [range, range];
  return (low.trim() === "" || value >= Number(low)) && (high.trim() === "" || value <= Number(high));
};
const matching = () => {
  const wanted = Object.fromEntries(new FormData(form));
  const text = wanted.text.toLowerCase();
  return rows.filter(row =>
    (!wanted.stage || row.stage === wanted.stage) &&
    (!wanted.domain || row.domain === wanted.domain) &&
    (!wanted.outcome || (wanted.outcome === "truncated" ? row.truncated : row.outcome === wanted.outcome)) &&
    (!wanted.decided_by || row.decided_by === wanted.decided_by) &&
    within(row.step, wanted.steps) && within(row.reward, wanted.rewards) && within(row.tokens, wanted.lengths) &&
    row.problem_id.startsWith(wanted.problem) &&
    (!text || (row.prompt + "\n" + row.response).toLowerCase().includes(text)));
};
const shown = value => typeof value === "number" && !Number.isInteger(value) ? value.toFixed(3) : value;
const open = (line, row) => {
  if (line.nextSibling && line.nextSibling.className === "opened") return line.nextSibling.remove();
  const cell = element("td"), opened = element("tr", undefined, "opened");
  cell.colSpan = columns.length;
  const facts = [row.truncated ? "truncated" : "", row.learned ? "" : "not learned from", row.detail].filter(Boolean);
  if (facts.length) cell.append(element("p", facts.join(" · "), "note"));
  for (const name of ["prompt", "response"]) cell.append(element("h3", name), element("pre", row[name]));
  opened.append(cell);
  line.after(opened);
};
const draw = () => {
  const found = matching(), pages = Math.max(1, Math.ceil(found.length / perPage));
  page = Math.min(page, pages - 1);
  const rewards = found.reduce((sum, row) => sum + row.reward, 0) / (found.length || 1);
  const first = page * perPage, last = Math.min(found.length, first + perPage);
  document.getElementById("count").textContent = found.length
    ? `${found.length} of ${rows.length} rows, mean reward ${rewards.toFixed(3)}; ${first + 1} to ${last} shown` : "no row matches";
  body.replaceChildren(...found.slice(first, last).map(row => {
    const line = element("tr", undefined, "row");
    line.tabIndex = 0;
    line.append(...columns.map(name => element("td", shown(row[name]), numeric.includes(name) ? "n" : "")));
    line.onclick = () => open(line, row);
    line.onkeydown = event => { if (event.key === "Enter") open(line, row); };
    return line;
  }));
  document.getElementById("previous").disabled = page === 0;
  document.getElementById("next").disabled = page >= pages - 1;
};
form.oninput = () => { page = 0; draw(); };
form.onreset = () => setTimeout(form.oninput);
form.onsubmit = event => event.preventDefault();
document.getElementById("previous").onclick = () => { page -= 1; draw(); };
document.getElementById("next").onclick = () => { page += 1; draw(); };
draw();
