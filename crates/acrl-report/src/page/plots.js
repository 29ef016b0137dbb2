// From the report's data to what Plotly draws: each function takes a plot and gives { data, layout }.
// `look` holds the colours of the theme, `width` is the panel's in pixels, `most` the height that a plane may have,
// `hidden` the names switched off by the legend.
"use strict";

const plots = (() => {
  const finite = (v) => typeof v === "number" && Number.isFinite(v);
  const narrow = (width) => width < 480;
  const fontSize = (width) => (narrow(width) ? 11 : 12);

  // With the alpha given, as Plotly wants it.
  const faded = (hex, alpha) => {
    const n = parseInt(hex.slice(1), 16);
    return `rgba(${n >> 16},${(n >> 8) & 255},${n & 255},${alpha})`;
  };

  // Names come from problem files; Plotly would take `<b>` in them for markup.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  const number = (v) => {
    if (!finite(v)) return "–";
    const a = Math.abs(v);
    if (a !== 0 && (a < 1e-4 || a >= 1e6)) return v.toExponential(2);
    return String(Number(v.toPrecision(4)));
  };

  // From the least to the greatest of some arrays, gaps left out; null if there is nothing.
  const extent = (arrays, positive) => {
    let low = Infinity, high = -Infinity;
    for (const values of arrays)
      for (const v of values)
        if (finite(v) && (!positive || v > 0)) { if (v < low) low = v; if (v > high) high = v; }
    return low <= high ? [low, high] : null;
  };

  // A range with some air; what is close to 0 begins there.
  const roomy = (range, log) => {
    if (!range) return [0, 1];
    let [low, high] = range;
    if (log) {
      low = Math.log10(low); high = Math.log10(high);
      const air = 0.05 * (high - low) || 0.5;
      return [low - air, high + air];
    }
    if (low === high) { const air = Math.abs(low) * 0.1 || 1; return [low - air, high + air]; }
    const air = 0.06 * (high - low);
    if (low >= 0 && low < 0.35 * high) return [0, high + air];
    return [low - air, high + air];
  };

  const axis = (look, spec, range, size) => {
    const result = {
      title: { text: plain(spec.label), standoff: 8, font: { size, color: look.soft } },
      type: spec.log ? "log" : "linear",
      range, autorange: false, gridcolor: look.grid, zeroline: false, linecolor: look.rule, showline: false,
      tickfont: { size: size - 0.5, color: look.soft }, ticks: "", ticklabelstandoff: 5, automargin: true, fixedrange: false,
    };
    // Two and five in between would be crowded on several powers of ten.
    if (spec.log && range[1] - range[0] > 1.5) result.dtick = Math.max(1, Math.ceil((range[1] - range[0]) / 6));
    if (spec.log) result.exponentformat = "power";
    return result;
  };

  const given = (spec) => spec.range && (spec.log ? spec.range.map(Math.log10) : [...spec.range]);

  const frame = (look, width, height, revision) => ({
    width, height, uirevision: revision, showlegend: false, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: look.font, size: fontSize(width), color: look.ink },
    hoverlabel: { bgcolor: look.paper, bordercolor: look.rule, font: { color: look.ink, size: 12, family: look.font } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: look.soft, activecolor: look.ink },
    margin: { l: 40, r: 16, t: 10, b: 46 },
    // On a touch screen a finger that scrolls the page must not zoom.
    dragmode: look.touch ? false : "zoom",
  });

  // The corners of steps, so that a band follows them.
  const corners = (x, y) => {
    const xs = [], ys = [];
    x.forEach((v, i) => {
      if (i > 0) { xs.push(v); ys.push(y[i - 1]); }
      xs.push(v); ys.push(y[i]);
    });
    return [xs, ys];
  };

  // A closed outline around each stretch without gaps.
  const outline = (series) => {
    let { x, band: { low, high } } = series;
    if (series.steps) { [, low] = corners(x, low); [x, high] = corners(x, high); }
    const xs = [], ys = [];
    let start = 0;
    for (let i = 0; i <= x.length; i++) {
      if (i < x.length && finite(x[i]) && finite(low[i]) && finite(high[i])) continue;
      if (i > start) {
        if (xs.length) { xs.push(null); ys.push(null); }
        for (let j = start; j < i; j++) { xs.push(x[j]); ys.push(high[j]); }
        for (let j = i - 1; j >= start; j--) { xs.push(x[j]); ys.push(low[j]); }
      }
      start = i + 1;
    }
    return [xs, ys];
  };

  // Bounds of one height share a line and a label.
  const levels = (bounds) => {
    const groups = [];
    for (const bound of bounds) {
      if (!finite(bound.value)) continue;
      const same = groups.find((group) => group[0].value === bound.value);
      if (same) same.push(bound); else groups.push([bound]);
    }
    return groups.map((group) => {
      const { value } = group[0];
      const rests = group.map((bound) => bound.name.slice(bound.name.indexOf(" ") + 1));
      const alike = group.length > 1 && rests.every((rest) => rest === rests[0] && rest !== "");
      if (group.length === 1) return { value, colour: group[0].colour, text: group[0].name };
      if (alike && groups.length === 1) return { value, colour: null, text: rests[0] };
      if (!alike) return { value, colour: null, text: group.map((bound) => bound.name).join(", ") };
      const heads = group.map((bound) => bound.name.slice(0, bound.name.indexOf(" ")));
      return { value, colour: null, text: `${heads.join(", ")} ${rests[0]}` };
    });
  };

  // Shifts the labels, lowest first, until none overlaps: a list of pixels upwards.
  const apart = (heights, distance) => {
    const order = heights.map((_, i) => i).sort((a, b) => heights[a] - heights[b]);
    const places = heights.slice();
    for (let pass = 0; pass < 60; pass++)
      for (let k = 1; k < order.length; k++) {
        const gap = distance - (places[order[k]] - places[order[k - 1]]);
        if (gap > 0.01) { places[order[k]] += gap / 2; places[order[k - 1]] -= gap / 2; }
      }
    return places.map((place, i) => place - heights[i]);
  };

  const labels = (look, found, range, log, pixels, size) => {
    const place = (v) => ((log ? Math.log10(v) : v) - range[0]) / (range[1] - range[0]) * pixels;
    const seen = found.filter((level) => place(level.value) >= -1 && place(level.value) <= pixels + 1);
    const shifts = apart(seen.map((level) => place(level.value)), size + 4);
    return seen.map((level, i) => ({
      x: 1, xref: "paper", xanchor: "left", xshift: 4, y: log ? Math.log10(level.value) : level.value, yref: "y", yanchor: "middle",
      yshift: shifts[i], text: plain(level.text), showarrow: false,
      font: { size, color: level.colour ? look.text[level.colour] : look.ink },
    }));
  };

  const lines = (plot, { look, width, height, revision, hidden }) => {
    const size = fontSize(width), data = [];
    const on = (name) => (hidden.has(name) ? "legendonly" : true);
    for (const series of plot.series) {
      if (!series.band) continue;
      const [x, y] = outline(series);
      data.push({
        type: "scatter", mode: "lines", x, y, fill: "toself", fillcolor: faded(look.colours[series.colour], 0.18), line: { width: 0 },
        hoverinfo: "skip", legendgroup: series.name, name: series.band.name, visible: on(series.name),
      });
    }
    for (const series of plot.series) {
      const points = series.y.filter(finite).length;
      const trace = {
        type: "scatter", mode: points > 1 ? "lines" : "markers", x: series.x, y: series.y, name: plain(series.name), legendgroup: series.name,
        line: { color: look.colours[series.colour], width: 2, dash: series.dashed ? "dash" : "solid", shape: series.steps ? "hv" : "linear" },
        marker: { color: look.colours[series.colour], size: 7 }, visible: on(series.name), connectgaps: false,
        hovertemplate: "%{y:.4~g}",
      };
      if (series.band) {
        trace.text = series.band.low.map((low, i) => `${number(low)} – ${number(series.band.high[i])}`);
        trace.hovertemplate = "%{y:.4~g}  (%{text})";
      }
      data.push(trace);
    }
    const shown = plot.series.filter((series) => !hidden.has(series.name));
    const found = levels(plot.bounds);
    const values = (shown.length ? shown : plot.series).flatMap((s) => (s.band ? [s.y, s.band.low, s.band.high] : [s.y]));
    const yRange = given(plot.y) || roomy(extent([...values, found.map((l) => l.value)], plot.y.log), plot.y.log);
    const across = extent(plot.series.map((s) => s.x), plot.x.log) || [0, 1];
    const xRange = given(plot.x) || (plot.x.log ? across.map(Math.log10) : across);
    if (xRange[0] === xRange[1]) xRange[1] = xRange[0] + 1;
    const layout = frame(look, width, height, revision);
    layout.hovermode = "x unified";
    layout.xaxis = { ...axis(look, plot.x, xRange, size), hoverformat: ",.6~g" };
    layout.yaxis = axis(look, plot.y, yRange, size);
    layout.shapes = found.map((level) => ({
      type: "line", xref: "paper", x0: 0, x1: 1, yref: "y", y0: level.value, y1: level.value, layer: "above",
      line: { color: level.colour ? look.colours[level.colour] : look.soft, width: 1.3, dash: "dash" },
    }));
    if (found.length) layout.margin.r = 12 + Math.max(...found.map((level) => level.text.length)) * size * 0.56;
    layout.xaxis.nticks = Math.max(3, Math.floor((width - layout.margin.l - layout.margin.r) / 48));
    const inside = height - layout.margin.t - layout.margin.b;
    layout.annotations = labels(look, found, yRange, plot.y.log, inside, size - 0.5);
    // After a zoom the labels are moved apart anew.
    const relabel = (range) => labels(look, found, range, plot.y.log, inside, size - 0.5);
    return { data, layout, relabel: found.length ? relabel : null };
  };

  // A name that is too long for one line stands in two.
  const folded = (text, most) => {
    const gaps = [...text].flatMap((c, i) => (c === " " ? [i] : []));
    if (text.length <= most || !gaps.length) return plain(text);
    const half = gaps.reduce((a, b) => (Math.abs(b - text.length / 2) < Math.abs(a - text.length / 2) ? b : a));
    return `${plain(text.slice(0, half))}<br>${plain(text.slice(half + 1))}`;
  };

  const bars = (plot, { look, width, height, revision, hidden }) => {
    const size = fontSize(width), at = plot.categories.map((_, i) => i), group = (width - 60) / Math.max(1, at.length);
    const data = plot.bars.map((bar) => {
      const whiskers = bar.ranges && bar.ranges.length === bar.values.length;
      return {
        type: "bar", x: at, y: bar.values, name: plain(bar.name), legendgroup: bar.name, visible: hidden.has(bar.name) ? "legendonly" : true,
        marker: { color: look.colours[bar.colour] },
        error_y: whiskers ? {
          type: "data", symmetric: false, color: look.ink, thickness: 1.2, width: 3,
          array: bar.ranges.map(([, high], i) => Math.max(0, high - bar.values[i])),
          arrayminus: bar.ranges.map(([low], i) => Math.max(0, bar.values[i] - low)),
        } : { visible: false },
        text: bar.values.map((value, i) => number(value) + (whiskers ? `  (${bar.ranges[i].map(number).join(" – ")})` : "")
          + (finite(plot.bounds[i]) ? `<br>required: ${number(plot.bounds[i])}` : "")),
        textposition: "none", hovertemplate: `${plain(bar.name)}: %{text}<extra></extra>`,
      };
    });
    const bounds = plot.bounds.map((value, i) => [value, i]).filter(([value]) => finite(value));
    const shown = plot.bars.filter((bar) => !hidden.has(bar.name));
    const values = (shown.length ? shown : plot.bars).flatMap((bar) => [bar.values, ...(bar.ranges || [])]);
    const range = given(plot.y) || roomy(extent([...values, bounds.map(([v]) => v), plot.y.log ? [] : [0]], plot.y.log), plot.y.log);
    const layout = frame(look, width, height, revision);
    layout.barmode = "group"; layout.bargap = 0.28; layout.bargroupgap = 0.06; layout.hovermode = "closest";
    layout.yaxis = axis(look, plot.y, range, size);
    layout.xaxis = {
      ...axis(look, { label: "", log: false }, [-0.55, at.length - 0.45], size), tickvals: at, ticktext: plot.categories.map((text) => folded(text, group / (0.56 * size))), showgrid: false,
      tickfont: { size, color: look.ink },
    };
    layout.shapes = bounds.map(([value, i]) => ({
      type: "line", x0: i - 0.42, x1: i + 0.42, y0: value, y1: value, layer: "above", line: { color: look.ink, width: 1.6, dash: "4px,3px" },
    }));
    // Beside its group if there is room; the hover says it in any case.
    const room = 0.16 * (width - 70) / Math.max(1, at.length);
    // The axis tells where 0 is.
    layout.annotations = bounds.filter(([value]) => value !== 0 && number(value).length * size * 0.6 + 5 < room).map(([value, i]) => ({
      x: i + 0.42, y: plot.y.log ? Math.log10(value) : value, text: number(value), showarrow: false, xanchor: "left", yanchor: "middle", xshift: 1,
      font: { size: size - 1, color: look.ink },
    }));
    return { data, layout };
  };

  // Equal scales on both axes, whatever the panel's width.
  const plane = (area, { look, width, revision, most }, right) => {
    const margin = { l: 30, r: right, t: 8, b: 26 };
    const wide = area.x[1] - area.x[0], high = area.y[1] - area.y[0];
    const scale = Math.min((width - margin.l - margin.r) / wide, most / high);
    const size = fontSize(width);
    const layout = frame(look, Math.round(scale * wide + margin.l + margin.r), Math.round(scale * high + margin.t + margin.b), revision);
    layout.margin = margin;
    layout.hovermode = "closest";
    const side = (range) => ({
      range: [...range], autorange: false, gridcolor: look.grid, zeroline: false, showline: true, mirror: true, linecolor: look.rule, nticks: 6,
      tickfont: { size: size - 1, color: look.soft }, ticks: "", ticklabelstandoff: 4, constrain: "domain",
    });
    layout.xaxis = side(area.x);
    layout.yaxis = { ...side(area.y), scaleanchor: "x", scaleratio: 1 };
    return { layout };
  };

  const closed = (points) => [...points, points[0]];

  // A region's name stands in its upper left corner, where it covers the least.
  const names = (regions, font) => regions.filter((region) => region.outline.length).map((region) => {
    const top = Math.max(...region.outline.map(([, y]) => y));
    const tops = region.outline.filter(([, y]) => y > top - 1e-9).map(([x]) => x);
    const flat = tops.length > 1;
    return {
      x: flat ? Math.min(...tops) : tops[0], y: top, text: plain(region.name), showarrow: false, xanchor: flat ? "left" : "center", yanchor: "bottom",
      yshift: 0, borderpad: 1, font: font(region),
    };
  });

  // The distance of neighbours: of the grid if it is one, else of evenly spread points.
  const spacing = (arrows, area) => {
    const xs = [...new Set(arrows.map((a) => a.x))].sort((a, b) => a - b);
    const even = Math.sqrt((area.x[1] - area.x[0]) * (area.y[1] - area.y[0]) / Math.max(1, arrows.length));
    const gaps = xs.slice(1).map((x, i) => x - xs[i]).filter((gap) => gap > 1e-9);
    return gaps.length && gaps.length < 0.5 * arrows.length ? Math.min(Math.min(...gaps), 1.5 * even) : even;
  };

  // Shafts and heads as one line with gaps.
  const quiver = (arrows, area) => {
    const longest = Math.max(...arrows.map((a) => Math.hypot(a.dx, a.dy)), 1e-12);
    const scale = 0.86 * spacing(arrows, area) / longest, x = [], y = [];
    for (const a of arrows) {
      const dx = a.dx * scale / 2, dy = a.dy * scale / 2;
      if (!finite(dx) || !finite(dy)) continue;
      const [tx, ty] = [a.x + dx, a.y + dy];
      x.push(a.x - dx, tx, tx - 0.6 * dx - 0.3 * dy, null, tx, tx - 0.6 * dx + 0.3 * dy, null);
      y.push(a.y - dy, ty, ty - 0.6 * dy + 0.3 * dx, null, ty, ty - 0.6 * dy - 0.3 * dx, null);
    }
    return { x, y };
  };

  const field = (plot, setting, arrows) => {
    const { look } = setting, { layout } = plane(plot.area, setting, 10);
    const data = plot.regions.filter((region) => region.outline.length).map((region) => ({
      type: "scatter", mode: "lines", fill: "toself", x: closed(region.outline).map(([x]) => x), y: closed(region.outline).map(([, y]) => y),
      fillcolor: faded(look.colours[region.colour], 0.28), line: { color: look.colours[region.colour], width: 1.2 }, name: plain(region.name),
      hoverinfo: "name", hoveron: "fills",
    }));
    data.push({ type: "scatter", mode: "lines", ...quiver(arrows, plot.area), line: { color: look.ink, width: 1.25 }, hoverinfo: "skip", name: "policy" });
    layout.xaxis.showgrid = layout.yaxis.showgrid = false;
    layout.annotations = names(plot.regions, (region) => ({ size: 12, color: look.text[region.colour], weight: 600 }));
    layout.annotations.forEach((label) => { label.bgcolor = faded(look.paper, 0.8); });
    return { data, layout };
  };

  // Colours follow the root of the share, so that ways show beside the places where time is spent.
  const heat = (plot, setting) => {
    const { look, width } = setting;
    const { columns, area } = plot, rows = Math.ceil(plot.shares.length / columns);
    const most = Math.max(...plot.shares.filter(finite), 1e-12);
    const cell = [(area.x[1] - area.x[0]) / columns, (area.y[1] - area.y[0]) / rows];
    const row = (values, r) => values.slice(r * columns, (r + 1) * columns);
    const grid = (values) => Array.from({ length: rows }, (_, r) => row(values, r));
    const { layout } = plane(area, setting, 66);
    const inside = layout.width - layout.margin.l - layout.margin.r;
    const unit = Math.pow(10, Math.floor(Math.log10(most)));
    const ticks = [0, 0.05, 0.2, 0.5, 1, 2, 4, 6, 9].map((k) => k * unit).filter((v) => v <= most);
    const kept = ticks.filter((v, i) => i === 0 || Math.sqrt(v) - Math.sqrt(ticks[i - 1]) > 0.02 * Math.sqrt(most));
    const data = [{
      type: "heatmap", z: grid(plot.shares.map((v) => (finite(v) ? Math.sqrt(Math.max(0, v)) : null))), text: grid(plot.shares.map((v) => number(100 * v))),
      x0: area.x[0] + cell[0] / 2, dx: cell[0], y0: area.y[0] + cell[1] / 2, dy: cell[1], colorscale: "Viridis", zmin: 0, zmax: Math.sqrt(most),
      hovertemplate: "%{text} % of the time<extra></extra>",
      colorbar: {
        thickness: 10, outlinewidth: 0, x: 1 + 8 / inside, xpad: 0, xanchor: "left", xref: "paper", len: 1, ypad: 0, tickvals: kept.map(Math.sqrt), ticktext: kept.map((v) => `${number(100 * v)} %`),
        tickfont: { size: fontSize(width) - 1, color: look.soft }, ticks: "",
      },
    }];
    for (const region of plot.regions.filter((r) => r.outline.length)) {
      data.push({
        type: "scatter", mode: "lines", x: closed(region.outline).map(([x]) => x), y: closed(region.outline).map(([, y]) => y),
        line: { color: "#ffffff", width: 1.4 }, hoverinfo: "skip", name: plain(region.name),
      });
    }
    layout.annotations = names(plot.regions, () => ({ size: 12, color: "#ffffff" }));
    return { data, layout };
  };

  return { lines, bars, field, heat, number };
})();
