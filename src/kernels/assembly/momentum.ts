// `nesterov` is a literal at the calls of the inlined loop, so it is compiled twice, without a branch inside.
@inline
function momentumLoop(nesterov: bool, gradient: usize, momentum: usize, elementCount: u32, factor: f32): void {
  const factors = f32x4.splat(factor);
  const bytes = <usize>elementCount << 2;
  let at: usize = 0;
  for (; at < (bytes & ~15); at += 16) {
    const g = v128.load(gradient + at);
    const u = f32x4.add(f32x4.mul(factors, v128.load(momentum + at)), g);
    v128.store(momentum + at, u);
    v128.store(gradient + at, nesterov ? f32x4.add(g, f32x4.mul(factors, u)) : u);
  }
  for (; at < bytes; at += 4) {
    const g = load<f32>(gradient + at);
    const u: f32 = factor * load<f32>(momentum + at) + g;
    store<f32>(momentum + at, u);
    store<f32>(gradient + at, nesterov ? g + factor * u : u);
  }
}

export function applyMomentum(gradient: usize, momentum: usize, elementCount: u32, factor: f32, nesterov: bool): void {
  if (nesterov) momentumLoop(true, gradient, momentum, elementCount, factor);
  else momentumLoop(false, gradient, momentum, elementCount, factor);
}
