const { manifestTarget, safetensorsTarget } = require('./checkpoint');
const { environmentTarget } = require('./environment');
const { frameTarget } = require('./frame');
const { gradientPayloadTarget } = require('./gradient-payload');
const { namesTarget } = require('./names');
const { rendezvousTarget } = require('./rendezvous');
const { sharedQueueTarget } = require('./shared-queue');
const { streamTarget } = require('./stream');
const { timelineTarget } = require('./timeline');
const { TwinChecker } = require('./twin-checker');

/** All targets, by name, made when they are asked for. @type {Record<string, () => import('./fuzz').Target>} */
const TARGETS = {
  'gradient-payload': () => gradientPayloadTarget(),
  frame: () => frameTarget,
  rendezvous: () => rendezvousTarget,
  safetensors: () => safetensorsTarget,
  manifest: () => manifestTarget,
  environment: () => environmentTarget,
  names: () => namesTarget,
  timeline: () => timelineTarget,
  'shared-queue': () => sharedQueueTarget,
  stream: () => streamTarget,
  'gradient-payload-twins': () => gradientPayloadTarget(new TwinChecker()),
};

/** Those that are fast enough to be run when none is named. */
const DEFAULT_TARGETS = Object.keys(TARGETS).filter(name => name !== 'gradient-payload-twins');

module.exports = { TARGETS, DEFAULT_TARGETS };
