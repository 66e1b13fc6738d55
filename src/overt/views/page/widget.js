// The page as a widget: a frame of its own that may run its script and nothing else, and the way to Python and back.

function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.title = model.get("title");
  frame.style.cssText = "border: 0; width: 100%; height: 720px";
  const up = (event) => event.source === frame.contentWindow && model.send(event.data);
  const down = (answer, buffers) => frame.contentWindow?.postMessage({ answer, buffers }, "*");
  addEventListener("message", up);
  model.on("msg:custom", down);
  frame.srcdoc = model.get("page");
  el.append(frame);
  return () => {
    removeEventListener("message", up);
    model.off("msg:custom", down);
  };
}

export default { render };
