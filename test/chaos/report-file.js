const { closeSync, existsSync, openSync, readSync } = require('node:fs');

const CHUNK_BYTES = 65_536;

/** What one process of a run has told, read as it grows. */
class ReportFile {
  /** @type {object[]} */
  facts = [];
  rest = '';
  position = 0;

  constructor(file) {
    this.file = file;
    this.chunk = Buffer.alloc(CHUNK_BYTES);
  }

  /** Reads what is new. */
  poll() {
    if (this.descriptor === undefined && !existsSync(this.file)) return;
    this.descriptor ??= openSync(this.file, 'r');
    let count;
    while ((count = readSync(this.descriptor, this.chunk, 0, CHUNK_BYTES, this.position)) > 0) {
      this.position += count;
      const lines = (this.rest + this.chunk.toString('utf8', 0, count)).split('\n');
      this.rest = lines.pop();
      this.facts.push(...lines.map(line => JSON.parse(line)));
    }
  }

  close() {
    if (this.descriptor !== undefined) closeSync(this.descriptor);
    this.descriptor = undefined;
  }

  /** The value of a fact, the first of that name. */
  told(name) {
    return this.facts.find(fact => name in fact)?.[name];
  }

  /** The value of the last fact of that name: of the last process, where one came after another. */
  last(name) {
    return this.facts.findLast(fact => name in fact)?.[name];
  }

  /** When that was told: a `Date.now()`. */
  toldAt(name) {
    return this.facts.find(fact => name in fact)?.at;
  }

  /** The processes that have told something here, one after the other, each with what it has told. */
  get lives() {
    const lives = [];
    for (const fact of this.facts) {
      if ('pid' in fact) lives.push({ pid: fact.pid, facts: [] });
      lives.at(-1)?.facts.push(fact);
    }
    return lives;
  }

  /** By step, the hash of the weights after it. */
  get hashes() {
    return this.facts.flatMap(({ step, hash }) => (step === undefined ? [] : [{ step, hash }]));
  }
}

module.exports = { ReportFile };
