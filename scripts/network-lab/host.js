const { existsSync } = require('node:fs');
const { createServer } = require('node:net');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { LabError } = require('./lab-error');

/** An abstract unix socket. The kernel frees it when the process ends, in any way. */
const LOCK = '\0gradring-netlab';
const LOCK_PATIENCE_MS = 60_000;

/** @throws LabError, which says what is missing, if this machine cannot have a lab. */
function requireHost() {
  if (process.platform !== 'linux') {
    throw new LabError(`a network lab needs the network namespaces of Linux; this is ${process.platform}.`);
  }
  if (process.getuid() !== 0)
    throw new LabError('only root may make network namespaces: run netlab as root, or with sudo.');
  const folders = (process.env.PATH ?? '').split(path.delimiter);
  for (const tool of ['ip', 'tc']) {
    if (folders.some(folder => existsSync(path.join(folder, tool)))) continue;
    throw new LabError(
      `the command '${tool}' was not found: install iproute2 (Debian, Ubuntu: apt-get install iproute2).`,
    );
  }
}

/**
 * Runs the work while no other process of this host makes or removes a lab. Two processes that start at once must not
 * choose the same subnet, and a guard must not remove parts of a new lab with the same name.
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
    /** @param {NodeJS.ErrnoException} error */
    const onError = error => (error.code === 'EADDRINUSE' ? resolve(undefined) : reject(error));
    server.once('error', onError);
    server.listen(LOCK, () => resolve(server));
  });
}

module.exports = { requireHost, withHostLock };
