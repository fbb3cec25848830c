const { existsSync } = require('node:fs');
const { createServer } = require('node:net');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { LabError } = require('./lab-error');

/** An abstract unix socket: the kernel frees it with the process that holds it, however that ends. */
const LOCK = '\0gradring-netlab';
const LOCK_PATIENCE_MS = 60_000;

/** @throws LabError if labs cannot be made here, saying what is missing. */
function requireHost() {
  if (process.platform !== 'linux') {
    throw new LabError(`a network lab needs Linux, with its network namespaces; this is ${process.platform}.`);
  }
  if (process.getuid() !== 0)
    throw new LabError('only root may make network namespaces: run it as root, or with sudo.');
  const folders = (process.env.PATH ?? '').split(path.delimiter);
  for (const tool of ['ip', 'tc']) {
    if (folders.some(folder => existsSync(path.join(folder, tool)))) continue;
    throw new LabError(
      `the command '${tool}' was not found: install iproute2 (Debian, Ubuntu: apt-get install iproute2).`,
    );
  }
}

/**
 * Runs the work while no other process of this host makes or removes a lab: two that start at once must not choose the
 * same subnet, and a guard must not remove what a new lab of the same name just made.
 */
async function withHostLock(work) {
  const deadline = Date.now() + LOCK_PATIENCE_MS;
  let lock;
  while ((lock = await tryLock()) === undefined) {
    if (Date.now() > deadline) throw new LabError('another netlab has been making or removing a lab for a minute.');
    await sleep(20);
  }
  try {
    return await work();
  } finally {
    lock.close();
  }
}

function tryLock() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', error => (error.code === 'EADDRINUSE' ? resolve(undefined) : reject(error)));
    server.listen(LOCK, () => resolve(server));
  });
}

module.exports = { requireHost, withHostLock };
