import { correctGradient, sumTo } from './gradient';

/**
 * Corrects the gradient of a kernel whose inputs `a` and `b` are broadcast: that of tfjs 4.22 has the shape of the
 * result, which its backward pass refuses.
 */
export function correctBroadcastGradient(kernelName: string): void {
  correctGradient(kernelName, stock => (dy, saved, attributes) => {
    const { a, b } = stock(dy, saved, attributes);
    return { a: () => sumTo(a!(), saved[0]!.shape), b: () => sumTo(b!(), saved[1]!.shape) };
  });
}
