const { openSync, writeSync } = require('node:fs');
const path = require('node:path');

let file;

/**
 * Tells the harness something: a line of JSON in the rank's file, which is there even if the process dies the next
 * moment.
 */
function report(fact) {
  file ??= openSync(path.join(process.env.GRADRING_CHAOS_FOLDER, reportName()), 'a');
  writeSync(file, `${JSON.stringify({ ...fact, at: Date.now() })}\n`);
}

/** A process that is started with the rank of another has a file of its own, and so has the launcher. */
function reportName() {
  if (process.env.RANK === undefined) return 'launcher.jsonl';
  return `${process.env.GRADRING_CHAOS_LATE === undefined ? '' : 'late-'}rank-${process.env.RANK}.jsonl`;
}

module.exports = { report };
