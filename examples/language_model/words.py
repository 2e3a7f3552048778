"""Right answers to the open questions of `open_questions.py`: single words, in lower case and in the singular."""

from __future__ import annotations

ANIMALS = """
aardvark albatross alligator alpaca anaconda ant anteater antelope ape armadillo ass baboon badger barracuda bat bear
beaver bee beetle bird bison blackbird boa boar bobcat buffalo bull bumblebee butterfly buzzard caiman camel canary
capybara cardinal caribou cat caterpillar cattle centipede chameleon cheetah chicken chimpanzee chinchilla chipmunk
cicada clam cobra cockatoo cockroach cod condor coral cormorant cougar cow coyote crab crane cricket crocodile crow
cuckoo deer dingo dinosaur dog dolphin donkey dove dragonfly duck dugong eagle earthworm eel elephant elk emu falcon
ferret finch firefly fish flamingo flea fly fox frog gazelle gecko gerbil gibbon giraffe gnat gnu goat goldfish goose
gopher gorilla grasshopper grouse gull guppy hamster hare hawk hedgehog hen heron herring hippo hippopotamus hornet
horse hummingbird hyena ibex ibis iguana impala jackal jaguar jay jellyfish kangaroo kingfisher kitten kiwi koala
kookaburra krill ladybird ladybug lamb lark lemming lemur leopard lion lizard llama lobster locust loon lynx macaque
macaw magpie mallard mammoth manatee mandrill mantis marlin marmoset marmot meerkat mink minnow mole mongoose monkey
moose mosquito moth mouse mule narwhal newt nightingale ocelot octopus okapi opossum orangutan orca oryx ostrich otter
owl ox oyster panda panther parakeet parrot partridge peacock pelican penguin pheasant pig pigeon piranha platypus
pony porcupine porpoise possum prawn puffin puma puppy python quail quokka rabbit raccoon ram rat rattlesnake raven
ray reindeer rhino rhinoceros robin rooster salamander salmon sardine scorpion seagull seahorse seal shark sheep shrew
shrimp skunk sloth slug snail snake sparrow spider sponge squid squirrel starfish starling stingray stork swallow swan
tapir tarantula tarsier termite tiger toad tortoise toucan trout tuna turkey turtle viper vole vulture wallaby walrus
warthog wasp weasel whale wildebeest wolf wolverine wombat woodpecker worm wren yak zebra
"""

FRUITS = """
acai apple apricot avocado banana bergamot bilberry blackberry blackcurrant blueberry boysenberry breadfruit
cantaloupe cherry clementine cloudberry coconut cranberry currant custard damson date dragonfruit durian elderberry
feijoa fig gooseberry grape grapefruit guava honeydew huckleberry jackfruit jujube kiwi kiwifruit kumquat lemon lime
lingonberry longan loquat lychee mandarin mango mangosteen medlar melon mulberry nectarine olive orange papaya
passionfruit peach pear persimmon pineapple plantain plum pomegranate pomelo prune quince raisin rambutan raspberry
redcurrant rhubarb satsuma soursop starfruit strawberry tamarind tangelo tangerine tomato watermelon yuzu
"""

COLOURS = """
amber amethyst apricot aqua aquamarine aubergine auburn azure beige black blond blue bronze brown burgundy caramel
cerise cerulean charcoal chartreuse cherry chestnut chocolate cobalt copper coral cream crimson cyan ebony ecru
emerald fuchsia gold golden gray green grey indigo ivory jade khaki lavender lemon lilac lime magenta mahogany maroon
mauve mint mustard navy ochre olive orange orchid peach periwinkle pink plum purple red rose ruby russet rust saffron
salmon sapphire scarlet sepia sienna silver tan taupe teal terracotta topaz turquoise ultramarine umber vermilion
violet white yellow
"""

COUNTRIES = """
afghanistan albania algeria america andorra angola argentina armenia australia austria azerbaijan bahamas bahrain
bangladesh barbados belarus belgium belize benin bhutan bolivia botswana brazil britain brunei bulgaria burma burundi
cambodia cameroon canada chad chile china colombia congo croatia cuba cyprus czechia denmark djibouti dominica ecuador
egypt england eritrea estonia eswatini ethiopia fiji finland france gabon gambia georgia germany ghana greece grenada
guatemala guinea guyana haiti holland honduras hungary iceland india indonesia iran iraq ireland israel italy jamaica
japan jordan kazakhstan kenya kiribati korea kosovo kuwait kyrgyzstan laos latvia lebanon lesotho liberia libya
liechtenstein lithuania luxembourg macedonia madagascar malawi malaysia maldives mali malta mauritania mauritius
mexico micronesia moldova monaco mongolia montenegro morocco mozambique myanmar namibia nauru nepal netherlands
nicaragua niger nigeria norway oman pakistan palau palestine panama paraguay peru philippines poland portugal qatar
romania russia rwanda samoa scotland senegal serbia seychelles singapore slovakia slovenia somalia spain sudan
suriname sweden switzerland syria taiwan tajikistan tanzania thailand togo tonga tunisia turkey turkmenistan tuvalu
uganda ukraine uruguay usa uzbekistan vanuatu venezuela vietnam wales yemen zambia zimbabwe
"""

# What is asked for, and the words that are right.
WORDS = {
    "animal": frozenset(ANIMALS.split()),
    "fruit": frozenset(FRUITS.split()),
    "colour": frozenset(COLOURS.split()),
    "country": frozenset(COUNTRIES.split()),
}
