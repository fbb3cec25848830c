// Preloaded into a rank (NODE_OPTIONS=--require): has the comm thread of rank CRASH_RANK throw when the file CRASH_FILE
// appears.
const { existsSync } = require('node:fs');
const { isMainThread, workerData } = require('node:worker_threads');

const { RANK, CRASH_RANK, CRASH_FILE } = process.env;
if (!isMainThread && workerData?.options !== undefined && RANK === CRASH_RANK) {
  const timer = setInterval(() => {
    if (!existsSync(CRASH_FILE)) return;
    clearInterval(timer);
    throw new Error('crashed on purpose');
  }, 20);
}
