import type { Constants } from '../../src/bench/speedup/cluster-model';
import type { Rate } from '../../src/bench/speedup/measure-rings';
import type { Subject } from '../../src/bench/speedup/subject';

export const CONSTANTS: Constants = {
  ...{ compressNs: 2, encodeNs: 10, decodeNs: 5, averageNs: 1, denseNs: 3 },
  ...{ lowRankEncodeNs: 6, lowRankAddNs: 0.5 },
  ...{ hopNs: 1000, linkByteNs: 0.5, ringByteNs: 0.25, lineShare: 1 },
};
/** 8 ns a byte. */
export const GIGABIT: Rate = { text: '1gbit', bitsPerSecond: 1e9 };

export const SUBJECT: Subject = {
  tensors: [
    { name: 'weight', shape: [512, 512] },
    { name: 'bias', shape: [512] },
  ],
  ...{ density: 0.01, values: 'float16' },
};
