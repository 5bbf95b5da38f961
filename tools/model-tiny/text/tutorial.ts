import { familyNamed, type Task } from './answers.js'

const task = (prompt: string, family: string, bound: Record<string, string>): Task => ({
  prompt,
  family: familyNamed(family),
  bound,
})

/** The ten prompts of the length-ratio example, with what the grammar knows about them. */
export const tutorialTasks: readonly Task[] = [
  task('Describe a city in the clouds:', 'place', { P: 'city', W: 'in the clouds' }),
  task('Invent a new holiday and explain it:', 'event', { E: 'holiday' }),
  task('Write a bedtime story for a dragon:', 'story', { C: 'dragon' }),
  task('Explain how teleportation might work:', 'how', { T: 'teleportation' }),
  task('Tell a joke about dinosaurs:', 'joke', { J: 'dinosaur' }),
  task('Describe a world without electricity:', 'without', { Z: 'world', X: 'electricity' }),
  task('Create a superhero with a unique power:', 'character', { H: 'superhero', F: 'a unique power' }),
  task('Write a scene where the moon talks:', 'scene', { M: 'moon', A: 'talk' }),
  task('Invent a new type of fruit:', 'new-kind', { K: 'fruit' }),
  task('Design a playground on Mars:', 'design', { B: 'playground', W: 'on Mars' }),
]
