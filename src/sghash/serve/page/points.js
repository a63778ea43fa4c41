// Many points on a canvas: few as discs, many as pixels written one by one, which is faster by far.

const FEW = 6000;

const rgba = (context, shade) => {
  context.fillStyle = shade;
  const text = context.fillStyle;
  return (0xff << 24) | (parseInt(text.slice(5, 7), 16) << 16) | (parseInt(text.slice(3, 5), 16) << 8) | parseInt(text.slice(1, 3), 16);
};

// `groups` are rows by colour; `see` says where a place lies: pixels = middle + reach * (place - centre).
export function drawPoints(context, places, groups, see, size, radius) {
  const n = places.length / 2;
  context.setTransform(size.r, 0, 0, size.r, 0, 0);
  context.clearRect(0, 0, size.w, size.h);
  if (n <= FEW) {
    context.globalAlpha = 0.86;
    for (const group of groups) {
      context.fillStyle = group.shade;
      context.beginPath();
      for (const i of group.rows) {
        const x = see.mx + see.rx * (places[2 * i] - see.cx), y = see.my + see.ry * (places[2 * i + 1] - see.cy);
        context.moveTo(x + radius, y);
        context.arc(x, y, radius, 0, 7);
      }
      context.fill();
    }
    context.globalAlpha = 1;
    return;
  }
  const width = context.canvas.width, height = context.canvas.height;
  if (!width || !height) return;
  const image = context.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  const reach = Math.max(1, Math.round(radius * size.r)), discs = [];
  for (let dy = -reach; dy <= reach; dy++) {
    for (let dx = -reach; dx <= reach; dx++) if (dx * dx + dy * dy <= reach * reach) discs.push(dy * width + dx);
  }
  for (const group of groups) {
    const colour = rgba(context, group.shade), rows = group.rows;
    for (let k = 0; k < rows.length; k++) {
      const i = rows[k];
      const x = Math.round(size.r * (see.mx + see.rx * (places[2 * i] - see.cx)));
      const y = Math.round(size.r * (see.my + see.ry * (places[2 * i + 1] - see.cy)));
      if (x < reach || y < reach || x >= width - reach || y >= height - reach) continue;
      const at = y * width + x;
      for (let d = 0; d < discs.length; d++) pixels[at + discs[d]] = colour;
    }
  }
  context.putImageData(image, 0, 0);
}
