/* Search needs a worker, and browsers start none for pages opened as files. There, a hidden frame takes its place. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      var worker = this;
      this.waiting = [];
      var frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.appendChild(frame);
      var inside = frame.contentWindow;
      inside.postMessage = function (data) {
        var event = new MessageEvent("message", { data: data });
        worker.dispatchEvent(event);
        if (worker.onmessage) { worker.onmessage(event); }
      };
      var script = frame.contentDocument.createElement("script");
      script.src = new URL(address, location.href).href;
      script.onload = function () {
        worker.inside = inside;
        worker.waiting.forEach(function (data) { worker.postMessage(data); });
      };
      frame.contentDocument.body.appendChild(script);
    }
    postMessage(data) {
      if (!this.inside) { this.waiting.push(data); return; }
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data: data }));
    }
    terminate() {}
  };
}
