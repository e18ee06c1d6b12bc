"use strict";

// A name keeps its direction of writing to itself.
function isolated(name) {
  const made = document.createElement("bdi");
  made.textContent = name;
  return made;
}

// Lets the reader choose a node of a page from its list, by name or by number; `go` is then called with its id.
// `ids` are those of the nodes that are in the page, null where all `count` of a graph are; `names` are theirs, or null.
function choose(box, ids, names, count, go) {
  const pick = box.querySelector(".pick"), seek = box.querySelector(".seek"), status = box.querySelector(".status");
  function isKnown(id) { return ids ? ids.includes(id) : id < count; }
  // A name comes first, as it may be the number of another node; where not all names are here, a number may be one.
  function idOf(text) {
    const named = names ? names.indexOf(text) : -1;
    if (named >= 0) return ids ? ids[named] : named;
    return /^\d+$/.test(text) && !(ids && names) && isKnown(Number(text)) ? Number(text) : -1;
  }
  function search() {
    const text = seek.value.trim();
    if (!text) return;
    const id = idOf(seek.value) >= 0 ? idOf(seek.value) : idOf(text);
    if (id >= 0) go(id);
    else if (!ids) status.replaceChildren("There is no node ", isolated(text), " in this graph.");
    else status.replaceChildren("Node ", isolated(text), " is not among those in this report; make it again with --node ",
      isolated(text), ".");
  }
  pick.addEventListener("change", function () { go(Number(pick.value)); });
  box.querySelector("form").addEventListener("submit", function (event) { event.preventDefault(); search(); });
  // Says in the list which node is shown, which may not have been in it.
  function mark(id, name) {
    if (!pick.querySelector('option[value="' + id + '"]')) pick.add(new Option(name, String(id)));
    pick.value = String(id);
  }
  return { isKnown: isKnown, mark: mark, status: status, first: Number(pick.value) };
}
