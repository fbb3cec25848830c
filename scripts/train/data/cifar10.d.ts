export interface Images {
  readonly pixels: Float32Array;
  readonly labels: Int32Array;
}
export function loadCifar10(directory: string): { train: Images; test: Images };
