(function () {
  const field = document.querySelector(".coverage-search");
  const status = document.querySelector(".coverage-status");
  const count = document.querySelector(".coverage-count");
  const rows = Array.from(document.querySelectorAll("table.coverage tbody tr"));
  const texts = rows.map((row) => row.cells[0].textContent.toLowerCase());
  function update() {
    const words = field.value.toLowerCase().replace(/^np\./, "numpy.").split(/\s+/);
    let shown = 0;
    rows.forEach((row, i) => {
      const matches =
        words.every((word) => texts[i].includes(word)) &&
        (!status.value || row.cells[1].textContent === status.value);
      row.hidden = !matches;
      shown += matches;
    });
    count.textContent = shown + " functions";
  }
  field.addEventListener("input", update);
  status.addEventListener("input", update);
})();
