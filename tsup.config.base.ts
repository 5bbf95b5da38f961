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
  treeshake: false,
  splitting: true,
  // Packages hold their sources, so the maps need not.
  esbuildOptions(options) {
    options.sourcesContent = false
  },
}
