// Keeps the last answer of every kind that the page got from the API.

/** Records /client/v4/... answers of a page: last('dashboard') gives {url, body} of the newest one. */
export class Recorder {
  #answers = [];
  #waiting = [];

  constructor(page) {
    page.on('response', async (res) => {
      const kind = /\/client\/v4\/(?:zones\/[^/]+\/analytics\/(dashboard|latency|top)|(zones))\b/.exec(res.url());
      if (!kind) return;
      const body = await res.json().catch(() => undefined); // aborted by the page
      if (body === undefined) return;
      this.#answers.push({ kind: kind[1] ?? kind[2], url: new URL(res.url()), body });
      for (const wake of this.#waiting.splice(0)) wake();
    });
  }

  /** Number of answers so far: a mark for after(). */
  get mark() {
    return this.#answers.length;
  }

  /** How many answers of a kind came after a mark. */
  count(kind, mark = 0) {
    return this.#answers.slice(mark).filter((a) => a.kind === kind).length;
  }

  /** All answers of a kind. */
  all(kind) {
    return this.#answers.filter((a) => a.kind === kind);
  }

  /** The newest answer of a kind that fits; waits for it up to 15 s. */
  async after(mark, kind, fits = () => true) {
    const end = Date.now() + 15_000;
    for (;;) {
      const found = this.#answers.slice(mark).findLast((a) => a.kind === kind && fits(a));
      if (found) return found;
      const left = end - Date.now();
      if (left <= 0) throw new Error(`no answer of ${kind} within 15 s`);
      await new Promise((resolve) => {
        this.#waiting.push(resolve);
        setTimeout(resolve, left);
      });
    }
  }
}
