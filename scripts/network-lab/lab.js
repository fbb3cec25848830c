const { Guard } = require('./guard');
const { withHostLock } = require('./host');
const { LabError } = require('./lab-error');
const { MAX_RANKS, INTERFACE, bridgeName, findParts, rankName, requireLabName } = require('./names');
const { batch, run } = require('./network-tools');
const { parseRate, shapeOf } = require('./rate');
const { removeLab } = require('./remove-lab');
const { freeSubnet, parseSubnet, requireFree } = require('./subnet');

/** How many namespaces are set up at the same time. */
const AT_ONCE = 8;

/**
 * Makes a lab: `{ name, addresses, bridge, bridgeAddress, shape, guard }`. If this fails, or if the process is killed
 * meanwhile, all parts of the lab are removed. After this, the caller owns the guard and must release it.
 *
 * @throws LabError
 */
async function up({ name, ranks, rate, subnet }) {
  requireLabName(name);
  if (!(Number.isInteger(ranks) && ranks >= 1 && ranks <= MAX_RANKS)) {
    throw new LabError(`the number of ranks must be a whole number from 1 to ${MAX_RANKS}.`);
  }
  const bitsPerSecond = parseRate(rate);
  const wanted = subnet === undefined ? undefined : parseSubnet(subnet);
  return withHostLock(async () => {
    requireNew(name);
    const routes = JSON.parse(await run('ip', ['-json', '-4', 'route', 'show']));
    if (wanted !== undefined) requireFree(wanted, routes);
    const { prefix } = wanted ?? freeSubnet(routes);
    const lab = {
      name,
      addresses: Array.from({ length: ranks }, (_, rank) => `${prefix}${rank + 1}`),
      bridge: bridgeName(name),
      bridgeAddress: `${prefix}254`,
      shape: bitsPerSecond === undefined ? undefined : shapeOf(bitsPerSecond),
      guard: new Guard(name),
    };
    try {
      await build(lab);
    } catch (error) {
      await removeLab(name);
      await lab.guard.release();
      throw error;
    }
    return lab;
  });
}

/** Removes the lab, even if it is incomplete, and ends the processes in it. It is no error if there is no lab. */
async function down(name) {
  requireLabName(name);
  await withHostLock(() => removeLab(name));
}

/**
 * The existing lab with this name: `{ name, addresses }`.
 *
 * @throws LabError if there is none.
 */
async function find(name) {
  requireLabName(name);
  const { namespaces, interfaces } = findParts(name);
  if (namespaces.length === 0 || !interfaces.includes(bridgeName(name))) {
    throw new LabError(`there is no lab '${name}': make it with 'netlab up N --name ${name}'.`);
  }
  const [{ addr_info: [own] = [] }] = JSON.parse(await run('ip', ['-json', '-4', 'address', 'show', bridgeName(name)]));
  if (own === undefined)
    throw new LabError(`lab '${name}' is incomplete: remove it with 'netlab down --name ${name}'.`);
  const prefix = own.local.replace(/\d+$/, '');
  return { name, addresses: namespaces.map((_, rank) => `${prefix}${rank + 1}`) };
}

/** Disconnects a rank (`down`) or connects it again (`up`). Frames in both directions are silently lost. */
async function setLink(name, rank, state) {
  requireRank(await find(name), rank);
  await run('ip', ['link', 'set', rankName(name, rank), state]);
}

/** @throws LabError if the lab has no such rank. */
function requireRank({ name, addresses }, rank) {
  if (Number.isInteger(rank) && rank >= 0 && rank < addresses.length) return;
  throw new LabError(`lab '${name}' has ranks 0 to ${addresses.length - 1}.`);
}

function requireNew(name) {
  const { namespaces, interfaces } = findParts(name);
  if (namespaces.length + interfaces.length === 0) return;
  throw new LabError(
    `lab '${name}' exists already: remove it with 'netlab down --name ${name}', or choose another --name.`,
  );
}

async function build({ name, addresses, bridge, bridgeAddress, shape, guard }) {
  const names = addresses.map((_, rank) => rankName(name, rank));
  const shaping =
    shape && `root tbf rate ${shape.bitsPerSecond}bit burst ${shape.burstBytes} limit ${shape.limitBytes}`;
  const links = names.flatMap(own => [
    `netns add ${own}`,
    `link add ${own} type veth peer name ${INTERFACE} netns ${own}`,
    `link set ${own} master ${bridge} up`,
  ]);
  const bridging = [`link add ${bridge} type bridge`, `address add ${bridgeAddress}/24 dev ${bridge}`];
  await batch('ip', [], [...bridging, `link set ${bridge} up`, ...links], guard);
  if (shaping)
    await batch(
      'tc',
      [],
      names.map(own => `qdisc add dev ${own} ${shaping}`),
      guard,
    );

  const waiting = names.entries();
  const setUp = async () => {
    for (const [rank, own] of waiting) {
      const inside = [
        'link set lo up',
        `address add ${addresses[rank]}/24 dev ${INTERFACE}`,
        `link set ${INTERFACE} up`,
      ];
      if (shaping) await run('tc', ['-n', own, 'qdisc', 'add', 'dev', INTERFACE, ...shaping.split(' ')], { guard });
      await batch('ip', ['-n', own], inside, guard);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, setUp));
}

module.exports = { up, down, find, setLink, requireRank };
