const { readdirSync } = require('node:fs');
const { LabError } = require('./lab-error');

/** A /24 network has addresses for this many ranks, and some more for the host and for guests. */
const MAX_RANKS = 250;

/** The name of the only interface of each namespace besides loopback. */
const INTERFACE = 'eth0';

/** The folder in which `ip netns` keeps the names of namespaces. */
const NAMESPACES = '/var/run/netns';

/**
 * @throws LabError if the name is too long: an interface name has at most 15 characters, such as `nl-12345678-249`.
 */
function requireLabName(lab) {
  if (!/^[a-z][a-z0-9]{0,7}$/.test(lab)) {
    throw new LabError(
      `'${lab}' is no valid name for a lab: it must be a lower-case letter, then up to 7 lower-case letters or digits.`,
    );
  }
}

function bridgeName(lab) {
  return `nl-${lab}`;
}

/** The name of the namespace of a rank, and of the host's end of its link. */
function rankName(lab, rank) {
  return `nl-${lab}-${rank}`;
}

/** The parts of a lab that exist now: its namespaces, and the interfaces of the host. */
function findParts(lab) {
  const own = new RegExp(`^nl-${lab}(-\\d+)?$`);
  return { namespaces: list(NAMESPACES, own), interfaces: list('/sys/class/net', own) };
}

function list(folder, own) {
  try {
    return readdirSync(folder).filter(name => own.test(name));
  } catch (error) {
    if (error.code === 'ENOENT') return []; // no namespace was ever made
    throw error;
  }
}

module.exports = { MAX_RANKS, INTERFACE, NAMESPACES, requireLabName, bridgeName, rankName, findParts };
