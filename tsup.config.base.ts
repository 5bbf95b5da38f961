import type { Options } from 'tsup'

/** JavaScript comes from tsup; the declarations from `tsc` (see each package's build script). */
export const base: Options = {
  entry: ['src/index.ts'],
  format: ['esm'],
  target: 'node20',
  platform: 'node',
  dts: false,
  clean: true,
  silent: true,
  sourcemap: true,
  // The sources are published beside the maps.
  esbuildOptions: (options) => void (options.sourcesContent = false),
  treeshake: false,
  splitting: true,
}
