// Measurements on a page: contrast of text, ground of figures, width. Loaded by the browser tests only.
(() => {
const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
function rgba(colour) {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
}
function over(top, below) {
  return [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
}
function ground(node) {
  const layers = [];
  for (let at = node; at; at = at.parentElement) {
    layers.push(rgba(getComputedStyle(at).backgroundColor));
    if (layers[layers.length - 1][3] === 1) break;
  }
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
}
function luminance(colour) {
  const [r, g, b] = colour.slice(0, 3).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function ratio(a, b) {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

function seen(node) {
  return node.getClientRects().length > 0 && node.checkVisibility({ opacityProperty: true, visibilityProperty: true });
}

// Text below `selector` whose contrast is under `least`, each as "ratio: text"; and how many texts were measured.
function faint(selector, least) {
  const faults = [];
  let measured = 0;
  for (const top of document.querySelectorAll(selector)) {
    const walk = document.createTreeWalker(top, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const node = walk.currentNode.parentElement;
      if (!walk.currentNode.data.trim() || node.closest("script, style, noscript") || !seen(node)) continue;
      measured += 1;
      const below = ground(node);
      const found = ratio(over(rgba(getComputedStyle(node).color), below), below);
      if (found < least) faults.push(`${found.toFixed(2)}: ${walk.currentNode.data.trim().slice(0, 60)}`);
    }
    for (const field of top.querySelectorAll("input[type=text], textarea")) {
      measured += 1;
      const below = ground(field);
      const found = ratio(over(rgba(getComputedStyle(field).color), below), below);
      if (found < least) faults.push(`${found.toFixed(2)}: field ${field.id}`);
    }
  }
  return { faults, measured };
}

// Figures whose corners are not opaque and light.
async function darkFigures(selector) {
  const faults = [];
  const images = [...document.querySelectorAll(selector)];
  for (const image of images) {
    image.loading = "eager";
    await image.decode();
    const sheet = new OffscreenCanvas(image.naturalWidth, image.naturalHeight).getContext("2d");
    sheet.drawImage(image, 0, 0);
    const corners = [[0, 0], [image.naturalWidth - 1, 0], [0, image.naturalHeight - 1], [image.naturalWidth - 1, image.naturalHeight - 1]];
    for (const [x, y] of corners) {
      const pixel = sheet.getImageData(x, y, 1, 1).data;
      if (pixel[3] !== 255 || luminance([...pixel]) < 0.8) { faults.push(`${image.src.split("/").pop()} at ${x},${y}: ${[...pixel]}`); break; }
    }
  }
  return { faults, measured: images.length };
}

// Pixels by which the page is wider than its window, and what sticks out.
function overflow() {
  const page = document.scrollingElement;
  const wide = page.scrollWidth - page.clientWidth;
  if (wide <= 0) return null;
  const out = [...document.querySelectorAll("main *")].filter((node) => node.getBoundingClientRect().right > page.clientWidth + 1);
  return `${wide} px too wide: ${out.slice(0, 3).map((node) => `${node.tagName}.${node.className}`).join(" ")}`;
}
window.measure = { faint, darkFigures, overflow };
})();
