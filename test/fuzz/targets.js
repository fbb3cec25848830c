const { manifestTarget, safetensorsTarget } = require('./checkpoint');
const { frameTarget } = require('./frame');
const { gradientPayloadTarget } = require('./gradient-payload');
const { rendezvousTarget } = require('./rendezvous');
const { TwinChecker } = require('./twin-checker');

/** All targets, by name, made when they are asked for. @type {Record<string, () => import('./fuzz').Target>} */
const TARGETS = {
  'gradient-payload': () => gradientPayloadTarget(),
  frame: () => frameTarget,
  rendezvous: () => rendezvousTarget,
  safetensors: () => safetensorsTarget,
  manifest: () => manifestTarget,
  'gradient-payload-twins': () => gradientPayloadTarget(new TwinChecker()),
};

/** Those that are fast enough to be run when none is named. */
const DEFAULT_TARGETS = ['gradient-payload', 'frame', 'rendezvous', 'safetensors', 'manifest'];

module.exports = { TARGETS, DEFAULT_TARGETS };
