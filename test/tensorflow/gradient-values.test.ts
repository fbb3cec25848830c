import * as tf from '@tensorflow/tfjs';
import { loadBackend } from '../../src/tensorflow/backend';
import { quietCpuBackend } from '../../src/tensorflow/cpu-backend';
import { gradientValues } from '../../src/tensorflow/exchanged-variables';

beforeAll(async () => {
  await loadBackend({ backend: 'wasm' });
  quietCpuBackend();
});

test('what wasm reads is a copy each time', async () => {
  await tf.setBackend('wasm');
  const tensor = tf.ones([20_000]);
  const { values, isCopy } = gradientValues(tensor);
  expect(isCopy).toBe(true);
  expect(values).toHaveLength(20_000);
  structuredClone(values, { transfer: [values.buffer] });
  expect(gradientValues(tensor).values).toHaveLength(20_000);
});

test('the cpu backend hands out what it holds; also of a tensor that came from there to wasm', async () => {
  await tf.setBackend('cpu');
  const tensor = tf.tensor([1, 2, 3]).mul(2);
  expect(gradientValues(tensor)).toEqual({ values: Float32Array.of(2, 4, 6), isCopy: false });
  await tf.setBackend('wasm');
  expect(gradientValues(tensor)).toEqual({ values: Float32Array.of(2, 4, 6), isCopy: false });
});

test.each(['wasm', 'cpu'])('what is not float32 is converted: %s', async backend => {
  await tf.setBackend(backend);
  expect(gradientValues(tf.tensor1d([1, -2], 'int32')).values).toEqual(Float32Array.of(1, -2));
  expect(gradientValues(tf.tensor1d([true, false], 'bool')).values).toEqual(Float32Array.of(1, 0));
});

describe('the native backend', () => {
  /** The part that reads: `values` are those that a tensor was made of. */
  class NativeStandIn extends tf.KernelBackend {
    readonly tensorMap = new Map<object, { values: Float32Array | null }>();

    override write(values: tf.backend_util.BackendValues): object {
      const id = {};
      this.tensorMap.set(id, { values: values as Float32Array });
      return id;
    }

    override readSync(id: object): Float32Array {
      return this.tensorMap.get(id)!.values ?? Float32Array.of(7);
    }

    override disposeData(): boolean {
      return true;
    }

    override floatPrecision(): 32 {
      return 32;
    }
  }

  test('copies what an operation has made, and hands out what a tensor was made of', async () => {
    const backend = new NativeStandIn();
    tf.registerBackend('tensorflow', () => backend);
    await tf.setBackend('tensorflow');
    const tensor = tf.tensor(Float32Array.of(5));
    expect(gradientValues(tensor)).toEqual({ values: Float32Array.of(5), isCopy: false });
    backend.tensorMap.get(tensor.dataId)!.values = null; // used by an operation
    expect(gradientValues(tensor)).toEqual({ values: Float32Array.of(7), isCopy: true });
  });
});
