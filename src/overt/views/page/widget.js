// The page as a widget: a frame of its own that may run its script and nothing else, and the way to Python and back.

/** What anywidget hands over. @typedef {object} Model
 * @property {(name: string) => any} get
 * @property {(message: unknown) => void} send
 * @property {(event: "msg:custom", act: (answer: unknown, buffers: DataView[]) => void) => void} on
 * @property {(event: "msg:custom", act: (answer: unknown, buffers: DataView[]) => void) => void} off
 */

/** @param {{model: Model, el: HTMLElement}} host */
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.title = model.get("title");
  frame.style.cssText = "border: 0; width: 100%; height: 720px; grid-area: 1 / 1";
  const place = document.createElement("div");
  place.style.display = "grid";
  // A picture while Python is asked for the first time: in a notebook that was opened and not run, nobody answers.
  const png = model.get("picture");
  const image = document.createElement("img");
  if (png?.byteLength) {
    image.alt = model.get("title");
    image.style.cssText = "grid-area: 1 / 1; max-width: 100%";
    image.src = URL.createObjectURL(new Blob([png], { type: "image/png" }));
    place.append(image);
  }
  const up = (/** @type {MessageEvent} */ event) => {
    if (event.source !== frame.contentWindow) return;
    if (image.parentNode) frame.style.visibility = "hidden";
    model.send(event.data);
  };
  const down = (/** @type {unknown} */ answer, /** @type {DataView[]} */ buffers) => {
    image.remove();
    frame.style.visibility = "visible";
    frame.contentWindow?.postMessage({ answer, buffers }, "*");
  };
  addEventListener("message", up);
  model.on("msg:custom", down);
  frame.srcdoc = model.get("page");
  place.append(frame);
  el.append(place);
  return () => {
    removeEventListener("message", up);
    model.off("msg:custom", down);
  };
}

export default { render };
