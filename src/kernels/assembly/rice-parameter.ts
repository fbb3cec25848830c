import { riceCost, costAbove, costBelow } from './rice';

/** The result of the search so far. It belongs to the instance, so to one thread. */
let best: u32 = 0;
let least: u32 = 0;

/** Tries a parameter and the ones below and above it, with one count. */
function improves(symbols: usize, count: u32, parameter: u32): bool {
  const at = riceCost(symbols, count, parameter);
  const cost = min<u32>(at, min<u32>(costBelow, costAbove));
  if (cost >= least) return false;
  least = cost;
  if (cost == at) best = parameter;
  else best = cost == costBelow ? parameter - 1 : parameter + 1;
  return true;
}

export function riceParameter(symbols: usize, count: u32, mean: u32, far: bool): u32 {
  best = 0;
  least = u32.MAX_VALUE;
  const start: u32 = 31 - clz(max<u32>(1, mean));
  improves(symbols, count, start);
  // A parameter larger by one halves each quotient and adds a bit. So it saves nothing if the mean quotient is at most
  // 1. Usually this makes a second count unnecessary.
  if (best > start && least > count * (best + 2)) {
    for (let p = start + 3; p <= 32 && improves(symbols, count, min<u32>(31, p)); p += 3) {}
  }
  if (best < start || far) {
    for (let p = <i32>start - 3; p > -2; p -= 3) {
      if (!improves(symbols, count, max<i32>(0, p)) && !far) break;
    }
  }
  return best;
}
