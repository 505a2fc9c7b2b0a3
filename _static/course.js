// A box that scrolls sideways must be within reach of the keyboard: while its content is wider than itself, it is a tab stop.
(function () {
  const BOXES = ".pst-scrollable-table-container, mjx-container[display='true'], .cell_output .text_html, .bd-article pre";

  function reach() {
    for (const box of document.querySelectorAll(BOXES)) {
      if (box.scrollWidth > box.clientWidth && !box.querySelector("form.quiz")) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }

  addEventListener("load", async () => {
    if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
    await document.fonts.ready;
    reach();
    document.addEventListener("toggle", reach, true); // what a closed <details> holds has no width
    addEventListener("resize", reach);
  });
})();
