const { readdirSync } = require('node:fs');
const { LabError } = require('./lab-error');

/** As many ranks as a /24 has addresses, less some for the host and for guests. */
const MAX_RANKS = 250;

/** What the only interface of each namespace, besides loopback, is called. */
const INTERFACE = 'eth0';

/** Where `ip netns` keeps the names of namespaces. */
const NAMESPACES = '/var/run/netns';

/**
 * @throws LabError if the name would not fit: an interface name has at most 15 characters, `nl-12345678-249` is one.
 */
function requireLabName(lab) {
  if (!/^[a-z][a-z0-9]{0,7}$/.test(lab)) {
    throw new LabError(
      `'${lab}' cannot name a lab: take a lower-case letter, then up to 7 lower-case letters or digits.`,
    );
  }
}

function bridgeName(lab) {
  return `nl-${lab}`;
}

/** The name of a rank's namespace, and of the host's end of its link. */
function rankName(lab, rank) {
  return `nl-${lab}-${rank}`;
}

/** What there is of a lab just now, also if it is not whole: its namespaces and the host's interfaces. */
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
