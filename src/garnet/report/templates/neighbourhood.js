const KEPT = 0, DROPPED = 1, ADDED = 2;

// Where nodes are drawn, from -1000 to 1000: rings around the middle, relaxed by springs; nothing is random.
// `rings` has 0 for the node in the middle, which comes first, 1 for its neighbours, 2 for theirs.
function place(rings, edges, groups) {
  const n = rings.length, radii = [0, 0.5, 1], steps = 80;
  // So that the mean distance between neighbours suits how many there are.
  const apart = 1.1 / Math.sqrt(Math.max(n, 4));
  const x = new Float64Array(n), y = new Float64Array(n), counts = new Float64Array(n);
  function circle(chosen, radius, start) {
    chosen.forEach(function (node, number) {
      x[node] = radius * Math.cos(start + 2 * Math.PI * number / chosen.length);
      y[node] = radius * Math.sin(start + 2 * Math.PI * number / chosen.length);
    });
  }
  function all(ring) { return Array.from(rings.keys()).filter(function (node) { return rings[node] === ring; }); }
  // Neighbours on a circle, by group; theirs on a wider one, in the direction of those that they hang on.
  circle(all(1).sort(function (a, b) { return groups[a] - groups[b] || a - b; }), radii[1], 0);
  const pullX = new Float64Array(n), pullY = new Float64Array(n);
  edges.forEach(function (edge) {
    const a = edge[0], b = edge[1];
    pullX[a] += x[b]; pullY[a] += y[b]; pullX[b] += x[a]; pullY[b] += y[a];
    counts[a] += 1; counts[b] += 1;
  });
  // What hangs on opposite sides has no direction of its own; its number gives it one.
  function angle(node) { return Math.atan2(pullY[node], pullX[node]) + 1e-6 * node; }
  const outer = all(2).sort(function (a, b) { return angle(a) - angle(b); });
  circle(outer, radii[2], outer.length ? angle(outer[0]) : 0);
  for (let step = 0; step < steps; step++) {
    const forceX = new Float64Array(n), forceY = new Float64Array(n);
    for (let a = 0; a < n; a++) for (let b = a + 1; b < n; b++) {
      const dx = x[a] - x[b], dy = y[a] - y[b], squared = dx * dx + dy * dy + 1e-6;
      if (squared >= 16 * apart * apart) continue;
      const push = 0.5 * apart * apart / squared;
      forceX[a] += push * dx; forceY[a] += push * dy; forceX[b] -= push * dx; forceY[b] -= push * dy;
    }
    // The ends of many edges are pulled no harder than those of one.
    edges.forEach(function (edge) {
      const a = edge[0], b = edge[1], dx = x[b] - x[a], dy = y[b] - y[a];
      const pull = 0.25 * Math.max(0, 1 - apart / Math.max(Math.hypot(dx, dy), 1e-9));
      forceX[a] += pull * dx / counts[a]; forceY[a] += pull * dy / counts[a];
      forceX[b] -= pull * dx / counts[b]; forceY[b] -= pull * dy / counts[b];
    });
    const most = 0.08 * (1 - step / steps) + 0.002;
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

// The edges of each node of a graph, which comes in parts.
function edgesOf(graph) {
  return graph.of || (graph.of = graph.first.reduce(function (lists, first, edge) {
    [first, graph.second[edge]].forEach(function (node) { (lists[node] = lists[node] || []).push(edge); });
    return lists;
  }, []));
}

// An order of edges that a graph tells the scores of; what is not known is infinite.
function scoreIn(graph) {
  return function (edge) { return graph.scores[edge] === null ? Infinity : graph.scores[edge]; };
}

// A picture: nodes as [id, name, x, y, ring, label], edges as [first, second, kind, marked, score] by places among these.
function pictured(graph, shown, rings, chosen, spread) {
  const at = new Map(shown.map(function (node, number) { return [node, number]; }));
  const edges = chosen.sort(function (a, b) { return a - b; }).map(function (edge) {
    return [at.get(graph.first[edge]), at.get(graph.second[edge]), Number(graph.kinds[edge]), Number(graph.marked[edge]),
      graph.scores[edge]];
  });
  const labels = shown.map(function (node) { return graph.labels ? graph.labels[node] : -1; });
  const spots = spread(rings, edges, labels);
  return { edges: edges, nodes: shown.map(function (node, number) {
    const name = graph.names ? graph.names[node] : String(graph.ids[node]);
    return [graph.ids[node], name, spots[number][0], spots[number][1], rings[number], labels[number]];
  }) };
}

// The first node in the middle of the others, which are in their order on a circle.
function circled(rings) {
  return rings.map(function (ring, number) {
    const turn = 2 * Math.PI * number / Math.max(rings.length - 1, 1);
    return [Math.round(1000 * ring * Math.cos(turn)), Math.round(1000 * ring * Math.sin(turn))];
  });
}

// The few edges that matter of the node at place `start`: `few[0]` marked ones of the highest scores and `few[1]` others
// of the lowest, and the edges between their ends. garnet.report.neighbourhood has chosen alike of a large graph.
function lookAtFew(graph, start, few) {
  const of = edgesOf(graph), score = scoreIn(graph);
  function other(edge) { return graph.first[edge] + graph.second[edge] - start; }
  function ofKind(marked, sign) {
    return (of[start] || []).filter(function (edge) { return Number(graph.marked[edge]) === marked; })
      .sort(function (a, b) { return sign * ((score(a) > score(b)) - (score(b) > score(a))) || other(a) - other(b); });
  }
  const all = [ofKind(1, -1), ofKind(0, 1)], own = all[0].slice(0, few[0]).concat(all[1].slice(0, few[1]));
  const shown = [start].concat(own.map(other)), inside = new Set(shown), chosen = new Set();
  shown.forEach(function (node) {
    (of[node] || []).forEach(function (edge) {
      if (inside.has(graph.first[edge]) && inside.has(graph.second[edge])) chosen.add(edge);
    });
  });
  const rings = shown.map(function (node, number) { return number ? 1 : 0; });
  const totals = graph.totals || all.map(function (some) { return some.length; });
  const drawn = [Math.min(all[0].length, few[0]), Math.min(all[1].length, few[1])];
  return Object.assign(pictured(graph, shown, rings, Array.from(chosen), circled),
    { drawn: drawn, totals: totals, leftOut: totals[0] + totals[1] - own.length });
}

// What lies within two edges of the node at place `start` of a graph: the `most` nearest nodes, and the edges between
// them. Of a crowd at one distance the kinds of edges take turns; of one kind, marked edges come first, then high
// scores. Of a large graph, which comes in parts, garnet.report.neighbourhood has chosen alike.
function look(graph, start, most) {
  const of = edgesOf(graph), score = scoreIn(graph);
  function kind(edge) { return Number(graph.kinds[edge]); }
  function marked(edge) { return Number(graph.marked[edge]); }
  function before(a, b) {
    return a.ring - b.ring || marked(b.edge) - marked(a.edge) ||
      (score(b.edge) > score(a.edge)) - (score(a.edge) > score(b.edge)) || a.node - b.node ||
      kind(a.edge) - kind(b.edge);
  }
  const best = new Map();
  [ADDED, DROPPED].forEach(function (absent) {
    let inner = [start];
    [1, 2].forEach(function (ring) {
      const next = new Set();
      inner.forEach(function (node) {
        (of[node] || []).forEach(function (edge) {
          if (kind(edge) === absent) return;
          const other = graph.first[edge] + graph.second[edge] - node, row = { node: other, ring: ring, edge: edge };
          next.add(other);
          if (other !== start && (!best.has(other) || before(row, best.get(other)) < 0)) best.set(other, row);
        });
      });
      inner = Array.from(next);
    });
  });
  const queues = [0, 0, 0, 0, 0, 0, 0, 0, 0], rows = Array.from(best.values()).sort(before);
  rows.forEach(function (row) { row.turn = queues[3 * row.ring + kind(row.edge)]++; });
  rows.sort(function (a, b) { return a.ring - b.ring || a.turn - b.turn || kind(a.edge) - kind(b.edge); });
  const shown = [{ node: start, ring: 0 }].concat(rows.slice(0, most - 1));
  const inside = new Set(shown.map(function (row) { return row.node; })), chosen = new Set();
  shown.forEach(function (row) {
    if (row.ring < 2) (of[row.node] || []).forEach(function (edge) {
      if (inside.has(graph.first[edge]) && inside.has(graph.second[edge])) chosen.add(edge);
    });
  });
  const rings = shown.map(function (row) { return row.ring; });
  return Object.assign(pictured(graph, Array.from(inside), rings, Array.from(chosen), place),
    { leftOut: graph.left_out + rows.length + 1 - shown.length });
}
