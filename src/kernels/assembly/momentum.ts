// `nesterov` is a literal at the calls of the inlined loop, so the loop is compiled twice, without a branch inside.
@inline
function momentumLoop(nesterov: bool, gradient: usize, momentum: usize, elementCount: u32, factor: f32): void {
  const factors = f32x4.splat(factor);
  const bytes = <usize>elementCount << 2;
  let at: usize = 0;
  for (; at < (bytes & ~15); at += 16) {
    const g = v128.load(gradient + at);
    const u = nesterov
      ? f32x4.mul(factors, f32x4.add(v128.load(momentum + at), g))
      : f32x4.add(f32x4.mul(factors, v128.load(momentum + at)), g);
    v128.store(momentum + at, u);
    v128.store(gradient + at, nesterov ? f32x4.add(u, g) : u);
  }
  for (; at < bytes; at += 4) {
    const g = load<f32>(gradient + at);
    const u: f32 = nesterov ? factor * (load<f32>(momentum + at) + g) : factor * load<f32>(momentum + at) + g;
    store<f32>(momentum + at, u);
    store<f32>(gradient + at, nesterov ? u + g : u);
  }
}

export function applyMomentum(gradient: usize, momentum: usize, elementCount: u32, factor: f32, nesterov: bool): void {
  if (nesterov) momentumLoop(true, gradient, momentum, elementCount, factor);
  else momentumLoop(false, gradient, momentum, elementCount, factor);
}
