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

  /** By step, the hash of the weights after it. */
  get hashes() {
    return this.facts.flatMap(({ step, hash }) => (step === undefined ? [] : [{ step, hash }]));
  }
}

module.exports = { ReportFile };
