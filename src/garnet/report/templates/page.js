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

  function make(name, attributes, parent) {
    const made = document.createElementNS(SVG, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (parent) parent.appendChild(made);
    return made;
  }

  function explore(box) {
    const data = JSON.parse(box.querySelector("script.data").textContent);
    const words = data.words, whole = data.graph, views = new Map();
    const panels = Array.from(box.querySelectorAll(".panel")).map(function (panel, number) {
      return { svg: panel.querySelector("svg.net"), tip: panel.querySelector(".tip"), frame: panel.querySelector(".frame"),
        absent: data.panels[number][1], ties: [], at: -1 };
    });
    // In a small graph any node can be looked at, in a large one those that are in the list.
    const names = whole ? whole.names : data.parts[0].names && data.parts.map(function (part) { return part.names[0]; });
    const chooser = choose(box, whole ? null : data.listed, names, whole ? whole.ids.length : 0, go);
    const isKnown = chooser.isKnown, status = chooser.status;
    function found(id) {
      if (!views.has(id)) {
        const graph = whole || data.parts[data.listed.indexOf(id)], start = whole ? id : 0;
        views.set(id, data.few ? lookAtFew(graph, start, data.few) : look(graph, start, data.most));
      }
      return views.get(id);
    }
    let view = null, camera = { x: 0, y: 0, half: HALF };

    function aim() {
      const text = [camera.x - camera.half, camera.y - camera.half, 2 * camera.half, 2 * camera.half].join(" ");
      panels.forEach(function (panel) {
        panel.svg.setAttribute("viewBox", text);
        // Nodes and names keep their size on the screen, or nearly, however near one looks.
        const grow = Math.pow(camera.half / HALF, 0.7);
        panel.svg.querySelectorAll("circle").forEach(function (spot) { spot.setAttribute("r", grow * spot.dataset.size); });
        panel.svg.querySelectorAll("text").forEach(function (text) { text.style.fontSize = text.dataset.size * grow + "px"; });
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
    function aboutEdge(edge, gap) {
      const a = view.nodes[edge[0]], b = view.nodes[edge[1]];
      const known = a[5] >= 0 && b[5] >= 0;
      const kind = (edge[3] ? words.marked + ", " : "") + words.kinds[edge[2]];
      return [isolated(a[1]), " – ", isolated(b[1]), gap, kind, gap, scoreOf(edge)]
        .concat(known ? [gap, a[5] === b[5] ? "same label" : "different labels"] : []);
    }
    function aboutNode(node) {
      return [isolated(node[1]), (node[1] === String(node[0]) ? "" : " (id " + node[0] + ")") + labelled("\n", node) +
        (isKnown(node[0]) && node[0] !== view.nodes[0][0] ? "\nclick to go there" : "")];
    }

    function show(panel, parts, x, y) {
      panel.tip.replaceChildren(...parts);
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
        const same = node[5] >= 0 && node[5] === view.nodes[0][5];
        const kind = number === 0 ? " middle" : same ? " same" : "";
        make("circle", { "class": "node" + kind + (isKnown(node[0]) ? " known" : ""), "data-node": number,
          "data-id": node[0], cx: node[2],
          cy: node[3], "data-size": number === 0 ? 34 : node[4] === 1 ? 24 : 17 }, spots);
      });
      function called(node, size, above, most) {
        const side = node[2] < -700 ? "start" : node[2] > 700 ? "end" : "middle";
        const name = make("text", { x: node[2], y: node[3] - above, "text-anchor": side, "data-size": size }, spots);
        name.textContent = node[1].length > most ? node[1].slice(0, most - 1) + "…" : node[1];
        return name;
      }
      // Few neighbours leave room for their names.
      if (data.few) view.nodes.slice(1).forEach(function (node) { called(node, 58, node[3] > 0 ? -78 : 36, 12).classList.add("aside"); });
      called(view.nodes[0], 70, 48, 24);
      return { nodes: seen.size, edges: shown.length };
    }

    function list() {
      const place = box.querySelector(".listing .scroll");
      box.querySelector(".listing summary").textContent = "Edges of this node" + (view.leftOut ? " that are shown" : "");
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

    // Which of the node's edges are in the picture, and how many are not.
    function drawnOf() {
      const all = view.totals[0] + view.totals[1];
      if (!view.leftOut) return (all === 1 ? "its only edge is" : "all of its " + all.toLocaleString("en") + " edges are") +
        " drawn, " + view.totals[0].toLocaleString("en") + " of them " + words.marked + ".";
      function part(number, what) {
        const drawn = view.drawn[number], total = view.totals[number];
        return drawn === total ? "all " + count(total, what + " edge")
          : "the " + drawn + " most " + (number ? "trusted" : what) + " of " + count(total, what + " edge");
      }
      const parts = [part(0, words.marked), part(1, "other")].filter(function (text, n) { return view.totals[n]; });
      return parts.join(" and ") + " are drawn; " + view.leftOut.toLocaleString("en") + " of its " +
        all.toLocaleString("en") + " edges are not.";
    }

    function go(id) {
      view = found(id);
      chooser.mark(id, view.nodes[0][1]);
      const counts = panels.map(draw);
      hide();
      fit();
      list();
      if (data.few) {
        status.replaceChildren("Node ", isolated(view.nodes[0][1]), labelled(", ", view.nodes[0]) + ": " + drawnOf());
        return;
      }
      const part = view.leftOut ? " shown" : "";
      status.replaceChildren("Node ", isolated(view.nodes[0][1]), labelled(", ", view.nodes[0]) + ": " +
        panels.map(function (panel, n) {
          return data.panels[n][0].toLowerCase() + " " + count(counts[n].nodes, "node") + " and " +
            count(counts[n].edges, "edge") + part;
        }).join(", ") + "." + (view.leftOut ? " " + count(view.leftOut, "more node") + " not shown." : ""));
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
      show(panel, aboutEdge(edge, "\n"), frame.left + frame.width * Math.min(1, Math.max(0, x)),
        frame.top + frame.height * Math.min(1, Math.max(0, y)));
      status.replaceChildren(...aboutEdge(edge, ", "), ".");
    }

    box.querySelectorAll("[data-act]").forEach(function (button) {
      button.addEventListener("click", function () {
        if (button.dataset.act === "fit") fit(); else zoom(button.dataset.act === "in" ? 1 / 1.4 : 1.4);
      });
    });

    panels.forEach(function (panel) {
      const svg = panel.svg, fingers = new Map();
      let dragged = false;
      function spot(x, y) {
        const frame = svg.getBoundingClientRect();
        return [camera.x + camera.half * (2 * (x - frame.left) / frame.width - 1),
          camera.y + camera.half * (2 * (y - frame.top) / frame.height - 1)];
      }
      // The middle of the fingers, and how far apart two are.
      function grip() {
        const all = Array.from(fingers.values()), one = all[0], other = all[all.length - 1];
        return [(one[0] + other[0]) / 2, (one[1] + other[1]) / 2, Math.hypot(one[0] - other[0], one[1] - other[1])];
      }
      function lift(event) { fingers.delete(event.pointerId); }
      // Without Ctrl the wheel scrolls the page, and so does a single finger.
      svg.addEventListener("wheel", function (event) {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 300), ...spot(event.clientX, event.clientY));
      }, { passive: false });
      ["touchstart", "touchmove"].forEach(function (name) {
        svg.addEventListener(name, function (event) { if (event.touches.length > 1) event.preventDefault(); }, { passive: false });
      });
      svg.addEventListener("pointerdown", function (event) {
        fingers.set(event.pointerId, [event.clientX, event.clientY]);
        dragged = false;
      });
      svg.addEventListener("pointermove", function (event) {
        // Another button does not drag, and that this one was released outside of the picture shows only now.
        if (!(event.buttons & 1)) lift(event);
        const last = fingers.get(event.pointerId);
        if (!last) { tell(event); return; }
        if (event.pointerType === "touch" && fingers.size < 2) return;
        if (!dragged && Math.hypot(event.clientX - last[0], event.clientY - last[1]) < 4) return;
        if (!dragged) svg.setPointerCapture(event.pointerId);
        dragged = true;
        const old = grip(), wide = svg.getBoundingClientRect().width;
        fingers.set(event.pointerId, [event.clientX, event.clientY]);
        const now = grip();
        move(-2 * (now[0] - old[0]) / wide, -2 * (now[1] - old[1]) / wide);
        if (old[2] && now[2]) zoom(old[2] / now[2], ...spot(now[0], now[1]));
        hide();
      });
      function tell(event) {
        const tie = event.target.closest(".tie"), node = event.target.closest(".node");
        hide();
        if (tie) {
          light(tie.dataset.edge, "edge");
          show(panel, aboutEdge(view.edges[Number(tie.dataset.edge)], "\n"), event.clientX, event.clientY);
        } else if (node) {
          light(node.dataset.node, "node");
          show(panel, aboutNode(view.nodes[Number(node.dataset.node)]), event.clientX, event.clientY);
        }
      }
      ["pointerup", "pointercancel"].forEach(function (name) { svg.addEventListener(name, lift); });
      svg.addEventListener("pointerleave", function (event) { if (!fingers.has(event.pointerId)) hide(); });
      svg.addEventListener("click", function (event) {
        const node = event.target.closest(".node");
        if (node && !dragged && isKnown(Number(node.dataset.id))) {
          go(Number(node.dataset.id));
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
    go(chooser.first);
  }

  document.querySelectorAll(".explorer").forEach(explore);
  document.querySelectorAll(".votes").forEach(showVotes);
})();
