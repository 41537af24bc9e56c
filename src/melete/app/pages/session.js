"use strict";
(() => {
  const box = document.createElement("input");
  const told = document.createElement("output");
  const parts = [...document.querySelectorAll("main > article, main > .mark")];
  box.type = "search";
  box.placeholder = "Filter";
  box.setAttribute("aria-label", "Show only parts that hold these words");
  const show = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const part of parts) {
      const text = part.textContent.toLowerCase();
      part.hidden = !words.every((word) => text.includes(word));
      count += part.hidden ? 0 : 1;
    }
    told.textContent = words.length ? `${count} of ${parts.length}` : "";
  };
  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.hidden) {
      box.value = "";
      show();
      target.scrollIntoView();
    }
  };
  let wait = 0;
  box.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(show, 120); });
  addEventListener("hashchange", reveal);
  document.querySelector(".top > div").append(box, told);
})();
