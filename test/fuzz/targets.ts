import { manifestTarget, safetensorsTarget } from './checkpoint';
import { agentMessageTarget } from './agent-message';
import { chunkTarget } from './chunk';
import { compressorMessagesTarget } from './compressor-messages';
import { environmentTarget } from './environment';
import { frameTarget } from './frame';
import type { Target } from './fuzz';
import { gradientPayloadTarget } from './gradient-payload';
import { namesTarget } from './names';
import { rendezvousTarget } from './rendezvous';
import { sharedQueueTarget } from './shared-queue';
import { streamTarget } from './stream';
import { timelineTarget } from './timeline';
import { TwinChecker } from './twin-checker';
import { unitReportTarget } from './unit-report';

/** All targets, by name, made when they are asked for. */
export const TARGETS: Record<string, () => Target> = {
  'gradient-payload': () => gradientPayloadTarget(),
  chunk: () => chunkTarget(),
  'compressor-messages': () => compressorMessagesTarget,
  frame: () => frameTarget,
  rendezvous: () => rendezvousTarget,
  safetensors: () => safetensorsTarget,
  manifest: () => manifestTarget,
  environment: () => environmentTarget,
  names: () => namesTarget,
  timeline: () => timelineTarget,
  'shared-queue': () => sharedQueueTarget,
  stream: () => streamTarget,
  'agent-message': () => agentMessageTarget,
  'unit-report': () => unitReportTarget,
  'gradient-payload-twins': () => gradientPayloadTarget(new TwinChecker()),
};

/** Those that are fast enough to be run when none is named. */
export const DEFAULT_TARGETS = Object.keys(TARGETS).filter(name => name !== 'gradient-payload-twins');
