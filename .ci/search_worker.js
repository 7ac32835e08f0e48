/* The site's search runs in a worker.  Browsers refuse workers to pages that are files: there, a hidden frame has the
   worker's script, so that the search works from a folder, without a server. */
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      const script = url => new Promise((loaded, failed) => {
        const element = inside.document.createElement("script")
        Object.assign(element, { src: url, onload: loaded, onerror: failed })
        inside.document.body.append(element)
      })
      inside.importScripts = (...urls) => urls.reduce((last, url) => last.then(() => script(url)), Promise.resolve())
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      script(address).then(() => {
        this.ready = true
        for (const data of this.waiting) this.postMessage(data)
      })
    }

    postMessage(data) {
      if (this.ready)
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
      else
        this.waiting.push(data)
    }

    terminate() {
      this.frame.remove()
    }
  }
