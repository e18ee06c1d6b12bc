"use strict";
(function () {
  const root = document.documentElement;
  const toggle = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  function isDark() { return root.dataset.theme ? root.dataset.theme === "dark" : system.matches; }
  function sayTheme() {
    toggle.textContent = isDark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", "Switch to " + (isDark() ? "light" : "dark") + " colours");
    toggle.setAttribute("aria-pressed", String(isDark()));
  }
  toggle.addEventListener("click", function () { root.dataset.theme = isDark() ? "light" : "dark"; sayTheme(); });
  system.addEventListener("change", sayTheme);
  sayTheme();

  const SVG = "http://www.w3.org/2000/svg";
  const HALF = 1100;
  const KEPT = 0, DROPPED = 1, ADDED = 2;

  function make(name, attributes, parent) {
    const made = document.createElementNS(SVG, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (parent) parent.appendChild(made);
    return made;
  }

  // Rings around the middle, relaxed by springs: what garnet.report.placing does, for nodes that are asked for here.
  function place(rings, edges, groups) {
    const n = rings.length, radii = [0, 0.5, 1], apart = 1.1 / Math.sqrt(Math.max(n, 4));
    const x = new Float64Array(n), y = new Float64Array(n), counts = new Float64Array(n);
    function circle(chosen, radius, start) {
      chosen.forEach(function (node, number) {
        x[node] = radius * Math.cos(start + 2 * Math.PI * number / chosen.length);
        y[node] = radius * Math.sin(start + 2 * Math.PI * number / chosen.length);
      });
    }
    function all(ring) { return Array.from(rings.keys()).filter(function (node) { return rings[node] === ring; }); }
    circle(all(1).sort(function (a, b) { return groups[a] - groups[b] || a - b; }), radii[1], 0);
    const pullX = new Float64Array(n), pullY = new Float64Array(n);
    edges.forEach(function (edge) {
      const a = edge[0], b = edge[1];
      pullX[a] += x[b]; pullY[a] += y[b]; pullX[b] += x[a]; pullY[b] += y[a];
      counts[a] += 1; counts[b] += 1;
    });
    function angle(node) { return Math.atan2(pullY[node], pullX[node]) + 1e-6 * node; }
    const outer = all(2).sort(function (a, b) { return angle(a) - angle(b); });
    circle(outer, radii[2], outer.length ? angle(outer[0]) : 0);
    for (let step = 0; step < 80; step++) {
      const forceX = new Float64Array(n), forceY = new Float64Array(n);
      for (let a = 0; a < n; a++) for (let b = a + 1; b < n; b++) {
        const dx = x[a] - x[b], dy = y[a] - y[b], squared = dx * dx + dy * dy + 1e-6;
        if (squared >= 16 * apart * apart) continue;
        const push = 0.5 * apart * apart / squared;
        forceX[a] += push * dx; forceY[a] += push * dy; forceX[b] -= push * dx; forceY[b] -= push * dy;
      }
      edges.forEach(function (edge) {
        const a = edge[0], b = edge[1], dx = x[b] - x[a], dy = y[b] - y[a];
        const pull = 0.25 * Math.max(0, 1 - apart / Math.max(Math.hypot(dx, dy), 1e-9));
        forceX[a] += pull * dx / counts[a]; forceY[a] += pull * dy / counts[a];
        forceX[b] -= pull * dx / counts[b]; forceY[b] -= pull * dy / counts[b];
      });
      const most = 0.08 * (1 - step / 80) + 0.002;
      for (let node = 1; node < n; node++) {
        const back = 0.3 * (radii[rings[node]] / Math.max(Math.hypot(x[node], y[node]), 1e-9) - 1);
        const fx = forceX[node] + back * x[node], fy = forceY[node] + back * y[node];
        const part = Math.min(1, most / Math.max(Math.hypot(fx, fy), 1e-9));
        x[node] += part * fx; y[node] += part * fy;
      }
    }
    const furthest = Math.max.apply(null, Array.from(x).concat(Array.from(y)).map(Math.abs)) || 1;
    return Array.from(rings.keys()).map(function (node) {
      return [Math.round(1000 * x[node] / furthest), Math.round(1000 * y[node] / furthest)];
    });
  }

  // What lies within two edges of any node, from the edges of the whole graph: what garnet.report.neighbourhood does.
  function look(graph, id) {
    const of = graph.of || (graph.of = graph.first.reduce(function (lists, first, edge) {
      [first, graph.second[edge]].forEach(function (node) { (lists[node] = lists[node] || []).push(edge); });
      return lists;
    }, []));
    function kind(edge) { return Number(graph.kinds[edge]); }
    function marked(edge) { return Number(graph.marked[edge]); }
    function score(edge) { return graph.scores[edge] === null ? Infinity : graph.scores[edge]; }
    function before(a, b) {
      return a[1] - b[1] || marked(b[2]) - marked(a[2]) || (score(b[2]) > score(a[2])) - (score(a[2]) > score(b[2])) || a[0] - b[0];
    }
    const best = new Map();
    [ADDED, DROPPED].forEach(function (absent) {
      let inner = [id];
      [1, 2].forEach(function (ring) {
        const next = new Set();
        inner.forEach(function (node) {
          (of[node] || []).forEach(function (edge) {
            if (kind(edge) === absent) return;
            const other = graph.first[edge] + graph.second[edge] - node, row = [other, ring, edge];
            next.add(other);
            if (other !== id && (!best.has(other) || before(row, best.get(other)) < 0)) best.set(other, row);
          });
        });
        inner = Array.from(next);
      });
    });
    const rows = Array.from(best.values()).sort(before), shown = [[id, 0]].concat(rows.slice(0, graph.most - 1));
    const at = new Map(shown.map(function (row, number) { return [row[0], number]; })), edges = new Set();
    shown.forEach(function (row) {
      if (row[1] < 2) (of[row[0]] || []).forEach(function (edge) {
        if (at.has(graph.first[edge]) && at.has(graph.second[edge])) edges.add(edge);
      });
    });
    const ties = Array.from(edges).sort(function (a, b) { return a - b; }).map(function (edge) {
      return [at.get(graph.first[edge]), at.get(graph.second[edge]), kind(edge), marked(edge), graph.scores[edge]];
    });
    function label(node) { return graph.labels ? graph.labels[node] : -1; }
    function name(node) { return graph.names ? graph.names[node] : String(node); }
    const spots = place(shown.map(function (row) { return row[1]; }), ties, shown.map(function (row) { return label(row[0]); }));
    return { id: id, name: name(id), label: label(id), left_out: rows.length + 1 - shown.length, edges: ties,
      nodes: shown.map(function (row, number) {
        return [row[0], name(row[0]), spots[number][0], spots[number][1], row[1], label(row[0])];
      }) };
  }

  function explore(box) {
    const data = JSON.parse(box.querySelector("script.data").textContent);
    const views = data.views, words = data.words;
    const pick = box.querySelector(".pick"), seek = box.querySelector(".seek"), status = box.querySelector(".status");
    const panels = Array.from(box.querySelectorAll(".panel")).map(function (panel, number) {
      return { svg: panel.querySelector("svg.net"), tip: panel.querySelector(".tip"), frame: panel.querySelector(".frame"),
        absent: data.panels[number][1], ties: [], at: -1 };
    });
    const places = new Map(views.map(function (view, number) { return [view.id, number]; }));
    // In a small graph any node can be looked at, in a large one those that are in the list.
    function isKnown(id) { return places.has(id) || (data.graph && id >= 0 && id < data.graph.nodes); }
    function visit(id) {
      if (!places.has(id)) {
        views.push(look(data.graph, id));
        places.set(id, views.length - 1);
        const option = document.createElement("option");
        option.value = String(views.length - 1);
        option.textContent = views[views.length - 1].name;
        pick.appendChild(option);
      }
      go(places.get(id));
    }
    let view = null, camera = { x: 0, y: 0, half: HALF };

    function aim() {
      const text = [camera.x - camera.half, camera.y - camera.half, 2 * camera.half, 2 * camera.half].join(" ");
      panels.forEach(function (panel) {
        panel.svg.setAttribute("viewBox", text);
        // Nodes and names keep their size on the screen, or nearly, however near one looks.
        const grow = Math.pow(camera.half / HALF, 0.7);
        panel.svg.querySelectorAll("circle").forEach(function (spot) { spot.setAttribute("r", grow * spot.dataset.size); });
        panel.svg.querySelectorAll("text").forEach(function (text) { text.style.fontSize = 70 * grow + "px"; });
      });
    }
    function zoom(factor, x, y) {
      const half = Math.min(2 * HALF, Math.max(HALF / 30, camera.half * factor));
      const real = half / camera.half;
      if (x !== undefined) { camera.x = x + (camera.x - x) * real; camera.y = y + (camera.y - y) * real; }
      camera.half = half;
      aim();
    }
    function move(x, y) { camera.x += x * camera.half; camera.y += y * camera.half; aim(); }
    function fit() { camera = { x: 0, y: 0, half: HALF }; aim(); }

    function count(number, what) { return number.toLocaleString("en") + " " + what + (number === 1 ? "" : "s"); }
    function labelOf(node) { return node[5] < 0 ? "unknown" : String(node[5]); }
    function labelled(before, node) { return words.labelled ? before + "label " + labelOf(node) : ""; }
    function scoreOf(edge) { return words.score + " " + (edge[4] === null ? "not known" : edge[4]); }
    function aboutEdge(edge) {
      const a = view.nodes[edge[0]], b = view.nodes[edge[1]];
      const known = a[5] >= 0 && b[5] >= 0;
      const kind = (edge[3] ? words.marked + ", " : "") + words.kinds[edge[2]];
      return a[1] + " – " + b[1] + "\n" + kind + "\n" + scoreOf(edge) +
        (known ? "\n" + (a[5] === b[5] ? "same label" : "different labels") : "");
    }
    function aboutNode(node) {
      return node[1] + (node[1] === String(node[0]) ? "" : " (id " + node[0] + ")") + labelled("\n", node) +
        (isKnown(node[0]) && node[0] !== view.id ? "\nclick to go there" : "");
    }

    function show(panel, text, x, y) {
      panel.tip.textContent = text;
      panel.tip.hidden = false;
      const frame = panel.frame.getBoundingClientRect(), tip = panel.tip.getBoundingClientRect();
      let left = x - frame.left + 14, top = y - frame.top + 14;
      if (left + tip.width > frame.width) left = x - frame.left - tip.width - 10;
      if (top + tip.height > frame.height) top = y - frame.top - tip.height - 10;
      panel.tip.style.left = Math.max(0, left) + "px";
      panel.tip.style.top = Math.max(0, top) + "px";
    }
    function hide() {
      panels.forEach(function (panel) {
        panel.tip.hidden = true;
        panel.svg.querySelectorAll(".lit").forEach(function (one) { one.classList.remove("lit"); });
      });
    }
    function light(number, what) {
      panels.forEach(function (panel) {
        const one = panel.svg.querySelector("[data-" + what + '="' + number + '"]');
        if (one) one.classList.add("lit");
      });
    }

    function draw(panel) {
      const svg = panel.svg;
      svg.replaceChildren();
      const seen = new Set([0]), near = new Set([0]);
      function isThere(edge) { return edge[2] !== panel.absent; }
      view.edges.filter(isThere).forEach(function (edge) {
        if (edge[0] === 0) near.add(edge[1]);
        if (edge[1] === 0) near.add(edge[0]);
      });
      // What is two edges away in one picture need not be so in the other.
      const shown = Array.from(view.edges.keys()).filter(function (number) {
        const edge = view.edges[number];
        return isThere(edge) && (near.has(edge[0]) || near.has(edge[1]));
      });
      // What matters is drawn last, and lies on top.
      function weight(edge) { return 4 * edge[3] + 2 * (edge[2] !== KEPT) + (edge[0] === 0 || edge[1] === 0); }
      shown.sort(function (a, b) { return weight(view.edges[a]) - weight(view.edges[b]) || a - b; });
      const ties = make("g", {}, svg), spots = make("g", {}, svg);
      shown.forEach(function (number) {
        const edge = view.edges[number], a = view.nodes[edge[0]], b = view.nodes[edge[1]];
        seen.add(edge[0]).add(edge[1]);
        const tie = make("g", { "class": "tie", "data-edge": number }, ties);
        const ends = { x1: a[2], y1: a[3], x2: b[2], y2: b[3] };
        const far = !edge[3] && edge[0] !== 0 && edge[1] !== 0 ? " far" : "";
        const kind = (edge[3] ? " marked" : edge[2] === ADDED ? " new" : "") + (edge[2] === DROPPED ? " gone" : "");
        make("line", Object.assign({ "class": "hit" }, ends), tie);
        make("line", Object.assign({ "class": "ink" + kind + far }, ends), tie);
      });
      // From the node outwards is the order in which one steps through the edges.
      panel.ties = shown.slice().reverse().sort(function (a, b) {
        function away(edge) { return edge[0] === 0 || edge[1] === 0 ? 0 : 1; }
        return away(view.edges[a]) - away(view.edges[b]);
      });
      panel.at = -1;
      view.nodes.forEach(function (node, number) {
        if (!seen.has(number)) return;
        const same = node[5] >= 0 && node[5] === view.label;
        const kind = number === 0 ? " middle" : same ? " same" : "";
        make("circle", { "class": "node" + kind + (isKnown(node[0]) ? " known" : ""), "data-node": number, cx: node[2],
          cy: node[3], "data-size": number === 0 ? 34 : node[4] === 1 ? 24 : 17 }, spots);
      });
      const middle = view.nodes[0];
      const name = make("text", { x: middle[2], y: middle[3] - 48, "text-anchor": "middle" }, spots);
      name.textContent = middle[1].length > 24 ? middle[1].slice(0, 23) + "…" : middle[1];
      return { nodes: seen.size, edges: shown.length };
    }

    function list() {
      const place = box.querySelector(".listing .scroll");
      const table = document.createElement("table");
      function row(cells, kind, parent) {
        const line = parent.insertRow();
        cells.forEach(function (cell, number) {
          const made = document.createElement(kind);
          made.textContent = cell;
          if (kind === "td" && number === 2) made.className = "n";
          line.appendChild(made);
        });
      }
      row(["neighbour", "edge", words.score].concat(words.labelled ? ["label"] : []), "th", table.createTHead());
      const body = table.createTBody();
      view.edges.forEach(function (edge) {
        if (edge[0] !== 0 && edge[1] !== 0) return;
        const other = view.nodes[edge[0] === 0 ? edge[1] : edge[0]];
        row([other[1], (edge[3] ? words.marked + ", " : "") + words.kinds[edge[2]],
          edge[4] === null ? "not known" : String(edge[4])].concat(words.labelled ? [labelOf(other)] : []), "td", body);
      });
      place.replaceChildren(table);
    }

    function go(number) {
      view = views[number];
      pick.value = String(number);
      const counts = panels.map(draw);
      hide();
      fit();
      list();
      const out = view.left_out ? " " + count(view.left_out, "more node") + " not shown." : "";
      status.textContent = "Node " + view.name + labelled(", ", view.nodes[0]) + ": " + panels.map(function (panel, n) {
        return data.panels[n][0].toLowerCase() + " " + count(counts[n].nodes, "node") + " and " + count(counts[n].edges, "edge");
      }).join(", ") + "." + out;
    }

    function search() {
      const text = seek.value.trim();
      if (!text) return;
      let found = views.findIndex(function (one) { return one.name === text; });
      if (found < 0) found = views.findIndex(function (one) { return String(one.id) === text; });
      const named = data.graph && data.graph.names ? data.graph.names.indexOf(text) : -1;
      if (found >= 0) go(found);
      else if (named >= 0) visit(named);
      else if (/^\d+$/.test(text) && isKnown(Number(text))) visit(Number(text));
      else if (data.graph) status.textContent = "There is no node " + text + " in this graph.";
      else status.textContent = "Node " + text + " is not among those in this report; make it again with --node " + text + ".";
    }

    function step(panel, by) {
      if (!panel.ties.length) return;
      const last = panel.ties.length - 1, next = panel.at + by;
      panel.at = next < 0 ? last : next > last ? 0 : next;
      const edge = view.edges[panel.ties[panel.at]];
      hide();
      light(panel.ties[panel.at], "edge");
      const frame = panel.frame.getBoundingClientRect(), a = view.nodes[edge[0]], b = view.nodes[edge[1]];
      const x = ((a[2] + b[2]) / 2 - camera.x + camera.half) / (2 * camera.half);
      const y = ((a[3] + b[3]) / 2 - camera.y + camera.half) / (2 * camera.half);
      show(panel, aboutEdge(edge), frame.left + frame.width * Math.min(1, Math.max(0, x)),
        frame.top + frame.height * Math.min(1, Math.max(0, y)));
      status.textContent = panel.tip.textContent.replace(/\n/g, ", ") + ".";
    }

    pick.addEventListener("change", function () { go(Number(pick.value)); });
    box.querySelector("form").addEventListener("submit", function (event) { event.preventDefault(); search(); });
    box.querySelectorAll("[data-act]").forEach(function (button) {
      button.addEventListener("click", function () {
        if (button.dataset.act === "fit") fit(); else zoom(button.dataset.act === "in" ? 1 / 1.4 : 1.4);
      });
    });

    panels.forEach(function (panel) {
      const svg = panel.svg, fingers = new Map();
      let dragged = false, apart = 0;
      function spot(event) {
        const frame = svg.getBoundingClientRect();
        return [camera.x + camera.half * (2 * (event.clientX - frame.left) / frame.width - 1),
          camera.y + camera.half * (2 * (event.clientY - frame.top) / frame.height - 1)];
      }
      function gap() {
        const two = Array.from(fingers.values());
        return Math.hypot(two[0][0] - two[1][0], two[0][1] - two[1][1]);
      }
      svg.addEventListener("wheel", function (event) {
        event.preventDefault();
        const at = spot(event);
        zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 300), at[0], at[1]);
      }, { passive: false });
      svg.addEventListener("pointerdown", function (event) {
        fingers.set(event.pointerId, [event.clientX, event.clientY]);
        dragged = false;
        if (fingers.size === 2) apart = gap();
      });
      svg.addEventListener("pointermove", function (event) {
        const last = fingers.get(event.pointerId);
        if (last) {
          const wide = svg.getBoundingClientRect().width;
          const x = event.clientX - last[0], y = event.clientY - last[1];
          if (!dragged && Math.hypot(x, y) < 4) return;
          if (!dragged) svg.setPointerCapture(event.pointerId);
          dragged = true;
          fingers.set(event.pointerId, [event.clientX, event.clientY]);
          if (fingers.size === 2) { const now = gap(); zoom(apart / now); apart = now; } else move(-2 * x / wide, -2 * y / wide);
          hide();
          return;
        }
        tell(event);
      });
      function tell(event) {
        const tie = event.target.closest(".tie"), node = event.target.closest(".node");
        hide();
        if (tie) {
          light(tie.dataset.edge, "edge");
          show(panel, aboutEdge(view.edges[Number(tie.dataset.edge)]), event.clientX, event.clientY);
        } else if (node) {
          light(node.dataset.node, "node");
          show(panel, aboutNode(view.nodes[Number(node.dataset.node)]), event.clientX, event.clientY);
        }
      }
      function lift(event) { fingers.delete(event.pointerId); }
      ["pointerup", "pointercancel"].forEach(function (name) { svg.addEventListener(name, lift); });
      svg.addEventListener("pointerleave", function (event) { if (!fingers.has(event.pointerId)) hide(); });
      svg.addEventListener("click", function (event) {
        const node = event.target.closest(".node");
        if (node && !dragged && isKnown(view.nodes[Number(node.dataset.node)][0])) {
          visit(view.nodes[Number(node.dataset.node)][0]);
        } else if (!dragged) {
          tell(event);  // a finger does not hover
        }
      });
      svg.addEventListener("blur", hide);
      svg.addEventListener("keydown", function (event) {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const acts = {
          ArrowLeft: function () { move(-0.15, 0); }, ArrowRight: function () { move(0.15, 0); },
          ArrowUp: function () { move(0, -0.15); }, ArrowDown: function () { move(0, 0.15); },
          "+": function () { zoom(1 / 1.25); }, "=": function () { zoom(1 / 1.25); }, "-": function () { zoom(1.25); },
          "0": fit, Escape: hide, n: function () { step(panel, 1); }, p: function () { step(panel, -1); }
        };
        const act = acts[event.key] || acts[event.key.toLowerCase()];
        if (act) { event.preventDefault(); act(); }
      });
    });
    go(0);
  }

  document.querySelectorAll(".explorer").forEach(explore);
})();
