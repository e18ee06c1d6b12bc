// Who decided at a node: a line for each member of a committee.
function showVotes(box) {
  const data = JSON.parse(box.querySelector("script.data").textContent);
  const place = box.querySelector(".scroll");
  const chooser = choose(box, data.ids, data.names, data.count, go);

  function classOf(number) { return number < 0 ? "unknown" : String(number); }
  function percent(share) { return share + "\u00a0%"; }
  function cell(line, text, kind, number) {
    const made = document.createElement(kind);
    if (kind === "th") made.scope = line.parentNode.tagName === "THEAD" ? "col" : "row";
    if (number) made.className = "n";
    else if (text.length > 20) made.className = "long";
    made.append(text);
    line.appendChild(made);
    return made;
  }
  // A number and a bar as long as it.
  function measured(line, share, colour) {
    const track = document.createElement("span"), bar = document.createElement("span");
    track.className = "track " + colour;
    bar.style.width = share + "%";
    track.append(bar);
    cell(line, percent(share), "td", true).append(track);
  }

  function go(id) {
    const at = data.ids ? data.ids.indexOf(id) : id, name = data.names ? data.names[at] : String(id);
    chooser.mark(id, name);
    const table = document.createElement("table"), head = table.createTHead().insertRow(), body = table.createTBody();
    ["member", "class", "say", "doubted"].forEach(function (text, number) { cell(head, text, "th", number); });
    data.members.forEach(function (member, number) {
      const line = body.insertRow();
      const decided = number === data.decided[at];
      if (decided) line.className = "decided";
      cell(line, member + (decided ? " (decided)" : ""), "th");
      cell(line, classOf(data.said[number][at]), "td", true);
      measured(line, data.say[number][at], "c0");
      measured(line, data.doubt[number][at], "c1");
    });
    place.replaceChildren(table);
    const alike = data.said.filter(function (one) { return one[at] === data.chosen[at]; }).length;
    const others = alike ? ", as " + alike + " of its " + data.members.length + " members would have said alone"
      : ", which none of its members would have said alone";
    chooser.status.replaceChildren("Node ", isolated(name), (data.labels ? ", label " + classOf(data.labels[at]) : "") +
      ": the committee says " + data.chosen[at] + " (" + percent(data.sure[at]) + " sure)" + others + "; " +
      data.members[data.decided[at]] + (alike ? " decided." : " spoke most for it."));
  }
  go(chooser.first);
}
