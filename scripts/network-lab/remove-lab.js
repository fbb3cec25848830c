const { readdirSync, readlinkSync, statSync } = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { LabError } = require('./lab-error');
const { NAMESPACES, findParts } = require('./names');
const { batch } = require('./network-tools');

const PATIENCE_MS = 20_000;

/**
 * Ends all processes in the namespaces of the lab, and removes namespaces, links and bridge. It is no error if some of
 * them do not exist. The caller holds the lock of the host.
 *
 * @throws LabError if something is still there after 20 s.
 */
async function removeLab(lab) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const { namespaces, interfaces } = findParts(lab);
    if (namespaces.length + interfaces.length === 0) return;
    await endProcesses(namespaces, deadline);
    const commands = [
      ...interfaces.map(name => `link delete ${name}`),
      ...namespaces.map(name => `netns delete ${name}`),
    ];
    const failure = await batch('ip', ['-force'], commands).catch(error => error);
    if (Date.now() > deadline) throw new LabError(`lab '${lab}' cannot be removed. ${failure?.message ?? ''}`);
  }
}

/** Ends all processes, which would keep their namespaces alive. They may fork until the last one has ended. */
async function endProcesses(namespaces, deadline) {
  const identities = new Set(namespaces.map(name => `net:[${statSync(path.join(NAMESPACES, name)).ino}]`));
  for (;;) {
    const pids = readdirSync('/proc').filter(entry => /^\d+$/.test(entry) && identities.has(namespaceOf(entry)));
    if (pids.length === 0) return;
    if (Date.now() > deadline) throw new LabError(`processes ${pids.join(', ')} do not end.`);
    for (const pid of pids) end(Number(pid));
    await sleep(10);
  }
}

function namespaceOf(pid) {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`);
  } catch {
    return undefined; // ended meanwhile
  }
}

function end(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

module.exports = { removeLab };
