// Draws a report: `acrl.show(report)` draws it the first time and updates it afterwards, so that zooms, legends and
// sliders stay as the reader left them.
"use strict";

window.acrl = (() => {
  const COLOURS = ["red", "blue", "green", "orange", "purple", "sky", "grey"];
  const root = document.documentElement;
  const live = JSON.parse(document.getElementById("live").textContent);
  const figures = new Map(); // by name: { node, json, figure, panels, hidden }
  const touch = matchMedia("(pointer: coarse)").matches;

  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) if (value != null) node.setAttribute(key, value);
    node.append(...children.filter((child) => child != null));
    return node;
  };

  const look = () => {
    const style = getComputedStyle(root), value = (name) => style.getPropertyValue(name).trim();
    const all = (suffix) => Object.fromEntries(COLOURS.map((colour) => [colour, value(`--${colour}${suffix}`)]));
    return {
      paper: value("--paper"), ink: value("--ink"), soft: value("--soft"), rule: value("--rule"), grid: value("--grid"),
      colours: all(""), text: all("-ink"), font: getComputedStyle(document.body).fontFamily, touch,
    };
  };

  // ---- tables and text ----

  const SIGNS = { good: "✓", bad: "✗" };
  const sign = (tone) => SIGNS[tone] && make("span", { class: "sign", "aria-label": tone === "good" ? "yes" : "no" }, SIGNS[tone]);

  const table = ({ header, rows, note }) => {
    const cell = ({ text, tone }) => make("td", { class: tone }, sign(tone), text);
    const head = make("thead", {}, make("tr", {}, ...header.map((text) => make("th", { scope: "col" }, text))));
    const body = make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell))));
    const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "table" }, make("table", {}, head, body));
    return make("div", { class: "table" }, scroll, note ? make("p", { class: "note" }, note) : null);
  };

  // Rows that open on a click, each with an address of its own.
  const details = (rows) => make("div", { class: "details" }, ...rows.map(({ anchor, summary, badge, lines }) => {
    const link = make("a", { href: `#${anchor}`, class: "anchor" }, anchor);
    const line = ([label, text]) => [make("dt", {}, label), make("dd", {}, ...text.split("\n").map((part) => make("div", {}, part)))];
    const head = make("summary", {}, make("span", { class: `verdict ${badge.tone}` }, sign(badge.tone), badge.text), make("span", {}, summary), link);
    return make("details", { id: anchor }, head, make("dl", {}, ...lines.flatMap(line)));
  }));

  // Opens the row that the address names.
  const openNamed = () => {
    const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (row?.tagName !== "DETAILS") return;
    row.open = true;
    row.scrollIntoView();
  };
  addEventListener("hashchange", openNamed);

  const header = (report) => {
    document.title = report.title;
    document.getElementById("title").textContent = report.title;
    const lead = document.getElementById("lead"), { good } = report;
    const badge = good == null ? null
      : make("span", { class: good ? "badge good" : "badge bad", role: "img", "aria-label": good ? "yes" : "no" }, good ? "✓" : "✗");
    lead.replaceChildren(...(badge ? [badge] : []), make("span", {}, report.lead));
    lead.hidden = !report.lead && !badge;
  };

  const copy = async (code, button) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };

  const footer = (report) => {
    const parts = [];
    if (report.command) {
      const code = make("code", {}, report.command), button = make("button", { type: "button" }, "Copy");
      button.addEventListener("click", () => copy(code, button));
      parts.push(make("div", { class: "command" }, code, button));
    }
    if (report.facts.length) parts.push(make("dl", {}, ...report.facts.flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)])));
    document.getElementById("footer").replaceChildren(...parts);
  };

  // ---- figures ----

  const kind = (panel) => Object.keys(panel.plot)[0];

  // What the legend lists: each name once, whichever panels it is in.
  const keys = (figure) => {
    const found = new Map();
    for (const panel of figure.panels) {
      const plot = panel.plot[kind(panel)];
      for (const series of plot.series || []) {
        found.set(series.name, { ...series, mark: "line" });
      }
      for (const bar of plot.bars || []) if (!found.has(bar.name)) found.set(bar.name, { ...bar, mark: "bar" });
    }
    const list = [...found.values()];
    const bands = new Set(list.flatMap((series) => (series.band && series.band.name ? [series.band.name] : [])));
    for (const name of bands) list.push({ name, mark: "band", fixed: true });
    if (figure.panels.some((panel) => (panel.plot.bars?.bounds || []).some((bound) => bound != null)))
      list.push({ name: "required", mark: "bound", fixed: true });
    return list;
  };

  const mark = ({ mark: what, colour, dashed }) => {
    const shapes = {
      line: `<line x1="0" y1="6" x2="20" y2="6" stroke="var(--${colour})" stroke-width="2.5" ${dashed ? 'stroke-dasharray="5 3"' : ""}/>`,
      bar: `<rect x="4" y="0" width="12" height="12" rx="2" fill="var(--${colour})"/>`,
      band: '<rect x="0" y="1" width="20" height="10" fill="var(--grey)" opacity=".3"/>',
      bound: '<line x1="0" y1="6" x2="20" y2="6" stroke="var(--ink)" stroke-width="1.6" stroke-dasharray="4 3"/>',
    };
    const holder = make("span");
    holder.innerHTML = `<svg width="20" height="12" aria-hidden="true">${shapes[what]}</svg>`;
    return holder.firstChild;
  };

  const legend = (entry) => {
    const list = keys(entry.figure);
    const nodes = list.map((key) => {
      if (key.fixed) return make("span", { class: "key fixed" }, mark(key), key.name);
      const button = make("button", { class: "key", type: "button", "aria-pressed": String(!entry.hidden.has(key.name)) }, mark(key), key.name);
      button.addEventListener("click", () => {
        if (!entry.hidden.delete(key.name)) entry.hidden.add(key.name);
        button.setAttribute("aria-pressed", String(!entry.hidden.has(key.name)));
        draw(entry);
      });
      return button;
    });
    // One curve whose axis says what it is needs no legend.
    entry.legend.replaceChildren(...(list.length > 1 ? nodes : []));
    entry.legend.hidden = list.length < 2;
  };

  // A drawing is markup, which must not bring a script with it.
  const drawing = ({ width, height, elements }, label) => {
    const source = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}">${elements}</svg>`;
    const parsed = new DOMParser().parseFromString(source, "image/svg+xml").documentElement;
    if (parsed.nodeName !== "svg") return make("p", { class: "note" }, "This drawing cannot be shown.");
    parsed.querySelectorAll("script, foreignObject").forEach((node) => node.remove());
    for (const node of parsed.querySelectorAll("*"))
      for (const { name } of [...node.attributes]) if (/^on|href$/i.test(name)) node.removeAttribute(name);
    const svg = document.importNode(parsed, true);
    svg.setAttribute("class", "drawing");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    svg.style.maxWidth = `${Math.max(width, 320)}px`;
    return svg;
  };

  const values = (state, plot) => plot.sliders.map((slider, i) => state.moved[i] ?? slider.value);

  const arrowsOf = (state, plot) => {
    const moved = plot.model && state.moved.some((value) => value != null);
    return moved ? policy.arrows(plot.model, plot.arrows, values(state, plot)) : plot.arrows;
  };

  const told = (input, output, value) => {
    output.textContent = plots.number(Number(value.toPrecision(3)));
    input.style.setProperty("--share", `${100 * value / Number(input.max)}%`);
  };

  const sliders = (entry, state, plot) => {
    const same = plot.sliders.map((slider) => slider.name).join("\n");
    if (!plot.sliders.length) return;
    if (!plot.model) {
      const text = plot.sliders.map((slider) => `${slider.name} ${plots.number(slider.value)}`).join(", ");
      state.below.replaceChildren(make("p", { class: "fixed-multipliers" }, `multipliers: ${text}`));
      return;
    }
    if (state.names !== same) {
      state.names = same;
      state.moved = [];
      state.inputs = [];
      const rows = plot.sliders.map((slider, i) => {
        const id = `${entry.figure.name}-${state.index}-${i}`;
        const input = make("input", { type: "range", id, min: "0", step: "any", style: `--tint: var(--${slider.colour})` });
        const output = make("output", { for: id, style: `color: var(--${slider.colour}-ink)` });
        input.addEventListener("input", () => {
          state.moved[i] = Number(input.value);
          told(input, output, Number(input.value));
          cancelAnimationFrame(state.frame);
          state.frame = requestAnimationFrame(() => drawPanel(entry, state));
        });
        state.inputs.push([input, output]);
        return make("div", { class: "slider" }, make("label", { for: id, style: `color: var(--${slider.colour}-ink)` }, `λ ${slider.name}`), input, output);
      });
      const reset = make("button", { type: "button", class: "reset" }, "Reset");
      reset.addEventListener("click", () => { state.moved = []; sliders(entry, state, state.plot); drawPanel(entry, state); });
      state.below.replaceChildren(make("div", { class: "sliders" }, ...rows, reset));
    }
    values(state, plot).forEach((value, i) => {
      const [input, output] = state.inputs[i];
      input.max = String(Math.max(plot.sliders[i].most, value, 1e-9));
      if (state.moved[i] == null) input.value = String(value);
      told(input, output, value);
    });
  };

  const CONFIG = { displaylogo: false, displayModeBar: "hover", modeBarButtons: [["zoom2d", "pan2d", "resetScale2d"]], scrollZoom: false, doubleClick: "reset" };

  const drawPanel = (entry, state) => {
    const { plot, what } = state;
    const width = Math.floor(state.holder.clientWidth);
    if (what === "drawing" || width < 40) return;
    const columns = Math.max(1, Math.min(entry.figure.columns, entry.figure.panels.length));
    const paper = document.body.classList.contains("printing");
    const height = Math.round(Math.min(columns > 1 || paper ? 290 : 360, Math.max(255, width * 0.75)));
    const setting = { look: look(), width, height, most: paper ? 340 : 480, revision: entry.figure.name, hidden: entry.hidden };
    const { data, layout, relabel } = plots[what](plot, setting, what === "field" ? arrowsOf(state, plot) : null);
    state.relabel = relabel;
    state.plotNode.style.width = `${layout.width}px`;
    const range = String(layout.yaxis.range);
    Plotly.react(state.plotNode, data, layout, CONFIG);
    const spread = () => Plotly.relayout(state.plotNode, { annotations: state.relabel(state.plotNode.layout.yaxis.range) });
    // The reader's zoom was kept.
    if (relabel && String(state.plotNode.layout.yaxis.range) !== range) spread();
    if (!state.listens) {
      state.listens = true;
      state.plotNode.on("plotly_relayout", (change) => {
        if (!state.relabel || !Object.keys(change).some((key) => key.startsWith("yaxis"))) return;
        spread();
      });
    }
  };

  const panel = (entry, index) => {
    const holder = make("div", { class: "panel" }), plotNode = make("div", { class: "plot" }), below = make("div");
    const title = make("h4");
    holder.append(title, plotNode, below);
    return { holder, plotNode, below, title, index, moved: [], inputs: [] };
  };

  const draw = (entry) => entry.panels.forEach((state) => drawPanel(entry, state));

  const files = (name) => {
    const link = (path, text) => make("a", { href: path }, text);
    return make("div", { class: "files" }, name, link(`figures/${name}.svg`, "SVG"), link(`figures/${name}.png`, "PNG"), link(`data/${name}.csv`, "CSV"));
  };

  const newFigure = (name) => {
    const entry = { json: "", hidden: new Set(), panels: [], legend: make("div", { class: "keys" }), title: make("h3"), caption: make("div") };
    entry.grid = make("div", { class: "panels" });
    const caption = make("figcaption", {}, entry.caption, live ? null : files(name));
    entry.node = make("figure", { "data-figure": name }, entry.title, entry.legend, entry.grid, caption);
    return entry;
  };

  // Fills in what has changed. Drawing comes after, when the figure has a width.
  const fill = (entry, figure) => {
    const json = JSON.stringify(figure);
    if (json === entry.json) return false;
    Object.assign(entry, { json, figure });
    entry.title.textContent = figure.title;
    entry.title.hidden = !figure.title;
    entry.caption.textContent = figure.caption;
    entry.grid.style.setProperty("--columns", Math.max(1, Math.min(figure.columns, figure.panels.length)));
    const kinds = figure.panels.map(kind).join(" ");
    if (entry.kinds !== kinds) {
      entry.kinds = kinds;
      entry.panels = figure.panels.map((_, index) => panel(entry, index));
      entry.grid.replaceChildren(...entry.panels.map((state) => state.holder));
    }
    figure.panels.forEach((content, i) => {
      const state = entry.panels[i];
      state.what = kind(content);
      state.plot = content.plot[state.what];
      state.title.textContent = content.title;
      state.title.hidden = !content.title;
      if (state.what === "drawing") state.plotNode.replaceChildren(drawing(state.plot, figure.title));
      if (state.what === "field") sliders(entry, state, state.plot);
    });
    legend(entry);
    return true;
  };

  // Nodes that stay where they are are not touched: taking a slider out of the page would end its drag.
  const place = (parent, nodes) => {
    nodes.forEach((node, i) => { if (parent.children[i] !== node) parent.insertBefore(node, parent.children[i] || null); });
    while (parent.children.length > nodes.length) parent.lastElementChild.remove();
  };

  const show = (report) => {
    header(report);
    const changed = [], names = new Set();
    const nodes = report.blocks.map(({ kind: what, content }) => {
      if (what === "heading") return make("h2", {}, content);
      if (what === "text") return make("p", {}, content);
      if (what === "table") return table(content);
      if (what === "details") return details(content);
      names.add(content.name);
      const entry = figures.get(content.name) || newFigure(content.name);
      figures.set(content.name, entry);
      if (fill(entry, content)) changed.push(entry);
      return entry.node;
    });
    place(document.getElementById("main"), nodes);
    for (const name of [...figures.keys()]) if (!names.has(name)) figures.delete(name);
    footer(report);
    changed.forEach(draw);
  };

  const redraw = () => figures.forEach(draw);

  // ---- theme, size, paper ----

  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const theme = (name) => { root.dataset.theme = name; redraw(); };
  dark.addEventListener("change", () => { if (!chosen) theme(dark.matches ? "dark" : "light"); });
  document.getElementById("theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    theme(chosen);
  });

  let before = null, closed = [];
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((row) => { row.open = true; });
    document.body.classList.add("printing");
    theme("light");
  });
  addEventListener("afterprint", () => {
    document.body.classList.remove("printing");
    closed.forEach((row) => { row.open = false; });
    theme(before);
  });

  let waiting = 0, wide = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === wide) return;
    wide = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 120);
  });

  // ---- live ----

  const state = (name, text) => {
    const node = document.getElementById("state");
    Object.assign(node, { hidden: false, textContent: text });
    node.dataset.state = name;
  };

  const poll = async () => {
    try {
      const answer = await fetch(live.url, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const { report, done } = await answer.json();
      if (report) show(report);
      state(done ? "finished" : "live", done ? "finished" : "live");
      if (done) return;
    } catch {
      state("lost", "connection lost");
    }
    setTimeout(poll, 1000);
  };

  // What the figure of that name shows, or its field number `index` if it has several: [{ x, y, dx, dy }].
  const arrows = (name, index) => {
    const fields = (figures.get(name)?.panels || []).filter((s) => s.what === "field");
    const state = fields[index || 0];
    return state && arrowsOf(state, state.plot);
  };

  const first = JSON.parse(document.getElementById("report").textContent);
  if (first) { show(first); openNamed(); }
  if (live) { state("live", "waiting for the first figures"); poll(); }
  return { show, arrows };
})();
