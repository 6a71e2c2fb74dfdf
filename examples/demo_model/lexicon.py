"""The words that the templates draw from. An entry may itself use the template language of grammar.py."""


def bank(text, separator=","):
    return [" ".join(entry.split()) for entry in text.split(separator) if entry.strip()]


GIRLS = bank("Mara, Ida, Nell, Tess, Lena, Ruth, Ada, Clara, Wren, Hazel, Ivy, June, Molly, Rosa, Edith, Greta, Nina, Olive, "
             "Pearl, Sofia, Anna, Elsie, Flora, Hanna, Kate, Lucy, Maya, Nora, Rose, Sara, Vera, Zoe")
BOYS = bank("Tom, Otto, Finn, Sam, Jonas, Emil, Hugo, Leo, Max, Noah, Oscar, Paul, Ralph, Simon, Theo, Victor, Will, Anton, Ben, "
            "Carl, David, Eric, Felix, George, Henry, Ivan, Jack, Karl, Luke, Martin, Ned, Peter")
KIN = {"peer": (bank("sister, cousin, friend, neighbour"), bank("brother, cousin, friend, neighbour")),
       "elder": (bank("aunt, grandmother, mother"), bank("uncle, grandfather, father"))}
TRADES = bank("fisher, baker, gardener, sailor, carpenter, painter, teacher, doctor, potter, cook, weaver, postman, "
              "boat builder, net mender, beekeeper, clock maker, ferry captain, lighthouse keeper, shell collector, map maker")
TRAITS = bank("quiet, curious, brave, patient, cheerful, stubborn, gentle, clever, shy, careful, kind, lively, thoughtful, "
              "proud, honest, restless, hopeful, serious, friendly, dreamy")

# place: (with preposition, what is there (plural things), what may be heard or smelt, hidden spots)
PLACES = {
    "harbour": ("at the harbour", "boats, ropes, nets, gulls, barrels, baskets of fish, sails, fishing boats, crates, lanterns",
                "the creak of the masts, the smell of tar and salt, the cries of the gulls, the slap of water against the wall",
                "under a pile of nets, behind the barrels, inside an old rowing boat, between two crates, beside the stone steps"),
    "beach": ("on the beach", "shells, pebbles, dunes, footprints, sandcastles, bits of driftwood, strings of seaweed, smooth stones",
              "the rush of the waves, the hiss of wet sand, the smell of seaweed, the call of a lonely bird",
              "under a heap of seaweed, behind a dune, beneath a flat stone, inside a hollow log, at the edge of the water"),
    "tide pool": ("at the tide pool", "crabs, snails, shrimps, anemones, mussels, tiny fish, red weeds, limpets, starfish",
                  "the drip of water from the rocks, the smell of salt, the soft click of shells, the distant roar of the sea",
                  "under a ledge, behind a curtain of weed, in a crack in the rock, beneath a round stone, among the mussels"),
    "garden": ("in the garden", "roses, beans, bees, apple trees, rows of carrots, sunflowers, butterflies, pots of herbs, cabbages",
               "the hum of the bees, the smell of wet earth, the song of a blackbird, the rustle of the leaves",
               "under the rose bush, behind the shed, beneath an upturned pot, among the beans, beside the old well"),
    "kitchen": ("in the kitchen", "pots, pans, jars of jam, wooden spoons, cups, loaves of bread, bowls, onions, plates",
                "the smell of fresh bread, the whistle of the kettle, the crackle of the fire, the tick of the clock",
                "under the table, behind the flour sack, inside the biggest pot, in the bottom drawer, beside the stove"),
    "market": ("at the market", "stalls, baskets, apples, cheeses, flowers, carts, ribbons, jars of honey, pears, candles",
               "the shouts of the sellers, the smell of warm pies, the ring of a bell, the rumble of carts",
               "under a stall, behind a cart, inside an empty basket, among the pumpkins, beside the fountain"),
    "lighthouse": ("at the lighthouse", "stairs, windows, lamps, ropes, old charts, white walls, iron rails, brass bells",
                   "the howl of the wind, the hum of the great lamp, the echo of footsteps, the boom of the waves below",
                   "under the stairs, behind the great lamp, inside a wooden chest, on the highest step, beside the window"),
    "island": ("on the island", "cliffs, nests, wild goats, caves, pine trees, ferns, black rocks, berries, puffins",
               "the chatter of sea birds, the smell of pine, the echo of the surf, the whisper of the grass",
               "inside a cave, behind a fallen tree, under a fern, between two rocks, beside a little spring"),
    "library": ("in the library", "books, shelves, maps, desks, ladders, lamps, dusty chairs, tall windows, pictures",
                "the smell of old paper, the scratch of a pen, the turning of pages, the soft steps of the librarian",
                "under a desk, behind the tallest shelf, inside a big atlas, between two books, beside the reading lamp"),
    "workshop": ("in the workshop", "hammers, planks, nails, saws, wood shavings, brushes, tins of paint, half-built boats, tools",
                 "the smell of sawdust, the tap of a hammer, the scrape of a plane, the drip of varnish",
                 "under the bench, behind a stack of planks, inside a paint tin, among the shavings, beside the saw"),
    "forest": ("in the forest", "oaks, mushrooms, squirrels, mosses, ferns, owls, winding paths, streams, old roots",
               "the knock of a woodpecker, the smell of moss, the crack of a twig, the murmur of a stream",
               "under a root, behind a mossy stone, inside a hollow tree, among the ferns, beside the stream"),
    "village": ("in the village", "houses, chimneys, narrow lanes, cats, gates, lamps, stone walls, bicycles, window boxes",
                "the bark of a dog, the smell of wood smoke, the toll of the church bell, the laughter of children",
                "under the bridge, behind the bakery, inside the letter box, beside the pump, on a window sill"),
}
SEASONS = {
    "spring": ("a soft rain, a fresh breeze, pale sunshine, a clear blue sky, a gentle wind", "mild, bright, fresh, sunny"),
    "summer": ("a warm breeze, golden sunshine, a cloudless sky, a heavy heat, a shimmering haze", "hot, warm, bright, sunny"),
    "autumn": ("a thick fog, a cold wind, a grey drizzle, a red sunset, a sharp breeze", "misty, windy, golden, grey"),
    "winter": ("a light snow, a hard frost, an icy wind, a low white sun, a bitter cold", "cold, dark, frosty, white"),
}
# creature: (home, food, how it moves, what it does in danger, what it looks like, one more fact)
CREATURES = {k.strip(): bank(v, ";") for k, v in (line.split("=") for line in """
crab = under stones near the shore; small fish and bits of weed; walks sideways on eight legs; lifts its claws and hides in a crack; a hard shell and two strong claws; it must leave its old shell when it grows
hermit crab = in empty snail shells; scraps that the tide leaves behind; drags its borrowed house along; pulls itself deep into its shell; a soft tail and a shell that is not its own; it moves to a bigger shell when it grows
sea anemone = on rocks and reefs; shrimps and small fish; slides very slowly on its foot; folds its arms and becomes a round lump; a soft body and a ring of stinging arms; it looks like a flower but it is an animal
clownfish = among the arms of an anemone; tiny creatures that drift in the water; swims with quick little turns; dives between the stinging arms of its anemone; orange skin with three white bands; the stings of its anemone do not hurt it
octopus = in dens between the rocks; crabs and mussels; crawls on its arms or shoots backwards; squirts a cloud of dark ink; eight arms and very clever eyes; it can change its colour in a moment
starfish = on the floor of the sea; mussels and oysters; creeps on hundreds of tiny feet; holds tightly to its rock; five arms and a rough skin; it can grow a lost arm again
seahorse = in meadows of sea grass; very small shrimps; floats upright and steers with a tiny fin; curls its tail around a stem and stays still; a head like a horse and a curled tail; the father carries the eggs in a pouch
jellyfish = in the open water; small animals that drift past; opens and closes its body like an umbrella; stings with its long threads; a clear bell and trailing threads; it has no bones and no brain
sea turtle = in warm seas; sea grass and jellyfish; rows through the water with its flippers; dives down into deep water; a broad shell and a wise face; it returns to the beach where it was born
dolphin = in the open sea; fish and squid; leaps and races through the waves; calls its family for help; smooth grey skin and a long smile; it must come up to breathe air
whale = in cold and deep oceans; clouds of tiny shrimps; glides along with slow beats of its tail; sinks out of sight; a huge dark back and small eyes; it sings songs that travel for miles
seal = on rocks and sandbanks; fish; swims like an arrow and crawls like a worm; slips off the rocks into the sea; thick fur and round black eyes; it can sleep in the water
otter = along quiet coasts; crabs and shellfish; paddles on its back; wraps itself in weed and keeps still; brown fur and busy paws; it opens shells with a stone
gull = on roofs and cliffs; almost anything it can find; sails on the wind; flies up with a loud cry; white feathers and a yellow beak; it can drink salt water
pelican = near bays and harbours; fish; flies low above the waves; flaps away over the water; a huge beak with a pouch; its pouch can hold more than its stomach
puffin = in burrows on high cliffs; small silver fish; beats its short wings very fast; disappears into its burrow; black and white feathers and a bright beak; it can carry many fish at once
limpet = on bare rocks; thin green weed; crawls slowly when the tide is high; clamps itself to the stone; a shell like a small tent; it always returns to the same spot
mussel = in crowded beds on the rocks; tiny plants in the water; hardly moves at all; shuts its two shells; a blue and black shell; it ties itself to the rock with strong threads
sea urchin = on rocky ground under the water; weed; walks on its spines; points its spines at the enemy; a round body full of spines; its mouth is on the bottom side
shrimp = in pools and shallow bays; crumbs of plants and animals; swims backwards with a flick of its tail; darts under a stone; a clear body and long feelers; some shrimps clean the teeth of fish
lobster = in holes on the sea floor; crabs and worms and snails; walks forward and swims backward; backs into its hole with its claws in front; a dark blue shell and two different claws; it can live for many years
squid = in the deep sea; fish and shrimps; shoots through the water like a rocket; hides behind a cloud of ink; ten arms and enormous eyes; it has three hearts
ray = on sandy ground; clams and worms; flaps through the water like a bird; buries itself in the sand; a flat body and a thin tail; its eyes are on the top and its mouth is below
eel = in holes and under old wrecks; fish and crabs; winds through the water like a ribbon; slips backwards into its hole; a long smooth body; it travels far across the ocean to lay its eggs
shark = in every ocean; fish and seals; swims without ever resting; has little to fear; a pointed nose and rows of sharp teeth; its skeleton is not made of bone
sea snail = on weed and stones; soft green plants; glides on a wide foot; closes its door; a twisted shell with stripes; its shell grows together with it
coral = on reefs in warm and clear water; tiny drifting animals; does not move from its place; draws in its little arms; branches like a small stone tree; a reef is built by thousands of corals together
parrotfish = around coral reefs; weed that grows on the coral; paddles with its side fins; hides in a crack of the reef; bright green and pink scales; it makes sand by biting the coral
bee = in hives and hollow trees; nectar and pollen; flies from flower to flower; stings; a striped and furry body; it dances to tell its sisters where the flowers are
hedgehog = under hedges and heaps of leaves; worms and beetles; trots through the grass at night; rolls itself into a ball; a pointed nose and a coat of spines; it sleeps through the whole winter
owl = in barns and old trees; mice; flies without a sound; sits as still as a branch; large eyes and soft feathers; it can turn its head almost all the way round
snail = in damp corners of the garden; leaves; glides on a trail of slime; pulls in its horns; a round brown shell; it carries its house on its back
""".strip().splitlines())}

BANKS = {
    "girl": GIRLS, "boy": BOYS, "trade": TRADES, "trait": TRAITS, "place": list(PLACES), "creature": list(CREATURES),
    "colour": bank("red, blue, green, yellow, white, black, silver, golden, purple, orange, brown, grey, pink, pale blue, dark green"),
    "thing": bank("key, ring, letter, map, lantern, compass, whistle, coin, button, book, bell, necklace, knife, hat, kite, ball, "
                  "drum, basket, scarf, pocket watch, glass bottle, wooden box, toy boat, paintbrush, spyglass, music box, silver spoon, "
                  "fishing rod, photograph, little mirror, notebook, mitten, feather, pearl, flute"),
    "thing_look": bank("old, small, shiny, tiny, broken, rusty, beautiful, strange, heavy, painted, wooden, polished, dusty, plain, "
                       "wonderful, curious, precious, {colour}, {colour}, {colour}"),
    "food": bank("fish soup, apple pie, bread, pancakes, honey cake, plum jam, mussel stew, lemon tart, oat biscuits, pea soup, "
                 "potato pie, berry pudding, cheese rolls, ginger bread, carrot cake, tomato sauce, onion soup, cherry cake"),
    "ingredient": bank("flour, butter, salt, sugar, milk, honey, an egg, yeast, a lemon, cinnamon, a handful of nuts, cream, "
                       "two onions, fresh parsley, a cup of berries, pepper, some cheese, a ripe apple"),
    "plant": bank("beans, sunflowers, carrots, roses, tomatoes, pumpkins, tulips, peas, strawberries, lettuces, poppies, onions, "
                  "potatoes, lavender, radishes, melons"),
    "work": bank("mend the nets, paint the boat, sweep the floor, water the beans, bake the bread, carry the baskets, polish the lamp, "
                 "sort the shells, feed the hens, fold the sails, wash the dishes, dig the garden, stack the wood, pick the apples, "
                 "clean the windows, write letters, draw maps, repair the fence, gather driftwood, tie knots, count the boats, peel potatoes"),
    "doing": bank("watching the waves, humming a song, looking at the clouds, counting the gulls, thinking about supper, drawing in the sand, "
                  "listening to the wind, reading a story, collecting pebbles, whistling softly, eating an apple, dreaming of far islands, "
                  "waiting for the ferry, carving a piece of wood, mending a sleeve, peeling an orange"),
    "time": bank("one morning, one afternoon, one evening, early one day, late one night, one Sunday, on a Monday, on the first day of {season}, "
                 "just before sunrise, at noon, after breakfast, before supper, at low tide, at high tide, when the bell rang"),
    "later": bank("a little later, after a while, soon, before long, the next morning, in the evening, an hour later, that same night, "
                  "at last, after lunch, some days later, then, by and by, in the afternoon, two days later, when the tide turned"),
    "glad": bank("happy, proud, glad, cheerful, pleased, delighted, thankful, relieved, calm, full of joy"),
    "sad": bank("sad, worried, lonely, tired, upset, afraid, disappointed, unhappy, cross, ashamed, nervous, puzzled"),
    "mood_way": bank("slowly, quietly, gently, carefully, happily, quickly, patiently, bravely, softly, kindly, calmly, eagerly, proudly, shyly"),
    "wind_does": bank("T:blow from the [west|north|south|east], T:shake the windows, T:smell of salt, T:push the clouds along, T:whistle in the chimney, "
                      "T:carry the voices of the gulls, T:turn cold, T:die down, T:play with the leaves, T:sing in the ropes"),
    "sea_does": bank("T:be calm, T:be rough, T:glitter in the light, T:roar against the rocks, T:lie still like glass, T:rise and T:fall, "
                     "T:change from blue to grey, T:whisper on the sand, T:throw white foam into the air, T:look endless"),
    "saying": bank("a small light is better than no light; many hands make the work easy; the tide always comes back; a kind word costs nothing; "
                   "the slow boat also reaches the harbour; you cannot hurry a flower; even a big wave begins as a ripple; "
                   "good bread needs time; what you share grows larger; a friend is the best map; every storm has an end; "
                   "the one who asks finds the way; small steps cross the whole beach; a knot that is tied with care will hold", ";"),
    "size": bank("tiny, small, little, big, huge, tall, long, short, round, enormous"),
    "hour": bank("seven, eight, nine, ten, two, three, four, five, six"),
    "number": bank("two, three, four, five, six, seven, eight, nine, ten, twelve, twenty"),
    "weekday": bank("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"),
    "season": list(SEASONS),
}
