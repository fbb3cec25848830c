import path from 'node:path';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { gpuVariables, visibleDevices } from '../../src/launcher/host-resources';

const FOUR = ['0', '1', '2', '3'];

describe('devices of a rank', () => {
  test('each rank has one of its own, and does not take all its memory', () => {
    const variables = [0, 1, 2, 3].map(localRank => gpuVariables(1, localRank, {}, FOUR));
    expect(variables).toEqual(FOUR.map(own => ({ CUDA_VISIBLE_DEVICES: own, TF_FORCE_GPU_ALLOW_GROWTH: 'true' })));
  });

  test('a rank may have several', () => {
    const visible = [0, 1].map(localRank => gpuVariables(2, localRank, {}, FOUR).CUDA_VISIBLE_DEVICES);
    expect(visible).toEqual(['0,1', '2,3']);
  });

  test('more ranks than devices share them, in turn', () => {
    const visible = [0, 1, 2].map(localRank => gpuVariables(1, localRank, {}, ['0', '1']));
    expect(visible.map(variables => variables.CUDA_VISIBLE_DEVICES)).toEqual(['0', '1', '0']);
  });

  test('a rank never has a device twice', () => {
    expect(gpuVariables(4, 1, {}, ['0', '1']).CUDA_VISIBLE_DEVICES).toBe('0,1');
  });

  test('none where there are none, and none where none are wanted', () => {
    expect(gpuVariables(1, 0, {}, [])).toEqual({});
    expect(gpuVariables(0, 0, {}, FOUR)).toEqual({ CUDA_VISIBLE_DEVICES: '-1' });
  });

  test("the user's word on memory stays", () => {
    const env = { TF_FORCE_GPU_ALLOW_GROWTH: 'false' };
    expect(gpuVariables(1, 0, env, FOUR)).toEqual({ CUDA_VISIBLE_DEVICES: '0' });
  });
});

describe('devices of a host', () => {
  let driver: string;
  beforeEach(() => (driver = mkdtempSync(path.join(tmpdir(), 'gradring-gpus-'))));
  afterEach(() => rmSync(driver, { recursive: true }));

  test('as many as the driver lists', () => {
    for (const address of ['0000:01:00.0', '0000:02:00.0']) mkdirSync(path.join(driver, address));
    expect(visibleDevices({}, driver)).toEqual(['0', '1']);
    expect(visibleDevices({}, path.join(driver, 'none'))).toEqual([]);
  });

  test.each([
    ['2,3', ['2', '3']],
    ['GPU-8932f937, GPU-2', ['GPU-8932f937', 'GPU-2']],
    ['0,-1,1', ['0']],
    ['-1', []],
    ['', []],
  ])('CUDA_VISIBLE_DEVICES=%s names %j', (given, devices) => {
    expect(visibleDevices({ CUDA_VISIBLE_DEVICES: given }, driver)).toEqual(devices);
  });
});
