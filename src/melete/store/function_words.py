"""The commonest function words of the languages whose words can be told apart by them. Part of the store; facts, no code.

Latin script only: another script names its language by itself. Capitals do not count; accents do.
"""

# ruff: noqa: RUF001 - letters of many scripts

LATIN = {
    "en": """
a about after again all also am an and any are aren't as at be because been before being both but by can can't could
did didn't do does doesn't doing don't each for from get had has have having he her here him his how i i'd i'll i'm
i've if in into is isn't it it's its just like me more most my myself no not now of off on once only or other our out
over own same she should so some such than that that's the their them then there these they they're this those through
to too under until up us very was wasn't we we're were what what's when where which while who whom whose why will with
won't would you you're your
""",
    "de": """
aber alle als also am an auch auf aus bei beim bin bis bist da damit dann das dass dein dem den denn der des dich die
dies diese dieser dir doch dort du durch ein eine einem einen einer eines er es etwas euch euer für gibt hab habe
haben hat hatte hatten hier hinter ich ihm ihn ihr ihre im in ist ja jetzt kann kein keine können man mehr mein meine
mich mir mit muss nach nicht nichts noch nun nur ob oder ohne schon sehr sein seine seit sich sie sind so soll über um
und uns unser unter viel vom von vor wann war waren warum was weil welche wenn wer werden wie wieder will wir wird wo
wollen wurde wurden zu zum zur zwischen
""",
    "fr": """
à ai alors as au aussi aux avais avait avant avec avez avoir avons bien c'est ça ce cela ces cet cette chez comme
comment d'un d'une dans de des donc dont du elle elles en entre es est et étaient était été êtes être eu fait faire il
ils j'ai je jusque l' la le les leur leurs lui ma mais me même mes moi mon ne ni nos notre nous on ont ou où par parce
pas pendant peu peut plus pour pourquoi qu'il qu'elle quand que quel quelle quelles quels qui quoi sa sans se sera ses
si son sont sous suis sur ta te tes toi ton tous tout toute très tu un une vos votre vous
""",
    "es": """
a al algo algunos ante antes aquí así aunque como cómo con contra cual cuál cuando cuándo de del desde donde dónde
durante e el él ella ellas ellos en entre era eran eres es esa ese eso esta está están estaba este esto estos estoy
fue fueron ha había han has hasta hay he la las le les lo los más me mi mí mis mucho muy nada ni no nos nosotros
nuestra nuestro o os otra otro para pero poco por porque qué que quien quién se sea ser si sí sido sin sobre son soy
su sus también tanto te tengo ti tiene todo todos tu tú tus un una uno unos usted y ya yo
""",
    "it": """
a abbiamo ad agli ai al alla alle allo anche ancora avere aveva c'è che chi ci come con contro cosa cui da dagli dai
dal dalla dalle degli dei del della delle dello di dopo dov'è dove e è ed era erano essere fa fare fino fra già gli ha
hai hanno ho i il in io la le lei li lo loro lui ma me mi mia mie miei mio molto ne negli nei nel nella nelle no noi
non nostra nostro o ogni per perché però più poi prima quale quali quando quanto quella quelle quelli quello questa
queste questi questo qui se sei sempre senza si sia siamo sono sta stata stato su sua sue sugli sui sul sulla suo suoi
te ti tra tu tua tuo tutti tutto un una uno vi voi
""",
    "pt": """
a à ainda algo ao aos aquela aquele aqui as às até bem com como contra da das de dela dele deles depois do dos e é ela
elas ele eles em entre era eram essa esse esta está estão estas estava este estes eu faz foi foram há isso isto já lhe
mais mas me mesmo meu meus minha minhas muito na não nas nem no nos nós nossa nosso num numa nunca o onde os ou para
pela pelas pelo pelos por porque pouco qual quando quanto que quê quem são se seja sem ser seu seus só sobre sua suas
também te tem têm tenho ter teu tinha toda todo todos tu tua tudo um uma você vocês vou
""",
    "ca": """
a al als amb aquest aquesta aquests això ara bé cada com de del dels des després dins doncs el ella ells els em en ens
entre era es és esta està estan estic et ha hi he ho i jo ja l' la les li llavors més meu meva molt molts no nosaltres
o on per perquè però poc pot quan què que qui sense ser seu seva sí són tan també tinc té tot tots tu un una unes uns
va vaig van vam vas
""",
    "nl": """
aan achter al alle als altijd ben bij bent daar dan dat de deze die dit doen door dus een en er geen haar had hadden
heb hebben heeft hem het hier hij hoe hun iets ik in is ja je jij jou jouw jullie kan kon kunnen maar meer met mij
mijn misschien moet na naar niet niets nog nu of om omdat onder ons onze ook op over steeds te tegen toch toen tot u
uit uw van vanaf veel voor waar waarom wanneer want waren was wat we weer wel welke werd wie wij wil worden wordt zal
ze zei zelf zich zij zijn zo zonder zou
""",
    "sv": """
alla allt att av bara blev bli blir bort de dem den denna deras dess det detta dig din dit dock där då efter ej eller
en ett finns från får för göra ha hade han hans har hela henne hennes här hon honom hur i icke in ingen inte jag ju
kan kanske kommer kunde man med mellan men mig min mina mitt mot mycket ni nu när någon något några och också om oss
på sedan sig sin sina sitt ska skall skulle som så till under upp ut utan vad var vara varför varit vem vi vid vilken
vill vår är åt än över
""",
    "da": """
ad af alle alt anden at blev blive bliver da de dem den denne der deres det dette dig din dit dog du efter eller en
end er et for fra få gør ham han hans har havde hende hendes her hun hvad hvem hver hvilken hvis hvor hvorfor hvornår
i igen ikke ind ingen intet jeg jer kan kom kunne lige man mange med meget men mig min mine mit mod må ned noget nogen
nogle nu når og også om op os over på sig sin skal skulle som så til ud under var ved vi vil ville være været
""",
    "no": """
alle alt andre at av bare ble bli blir da de deg dem den denne dere deres det dette din ditt du eller en enn er et
etter for fordi fra få gjør ha hadde ham han hans har hei henne hennes her hun hva hvem hver hvilken hvis hvor hvordan
hvorfor i igjen ikke inn ingen jeg kan kom kommer kunne man mange med meg meget men mer min mitt mot må mye nå noe
noen når og også om opp oss over på seg selv si sin sitt skal skulle slik som så til ut uten var ved vi vil ville være
vært
""",
    "fi": """
ei eikä ehkä eli en et että he heidän heillä hän hänellä hänen hyvin itse ja jo joka jos jossa jota joten kanssa kai
kaikki kertoa koska kuin kuinka kuka kun me meidän mikä mikään mihin miksi millä milloin minkä minua minulla minulle
minun minä missä mitä mukaan mutta myös nämä ne niin niiden niitä noin nuo nyt ole oli olemme olen olet oletko olin
olisi olivat olla olleet ollut on onko ovat pitää se sekä sen siellä siihen siis siitä sille sinä sinun sitten sitä
täällä tai tämä tämän tässä tätä te tosi tuo vaan vai vain vaikka vielä voi voin
""",
    "et": """
aga ainult ära ei ega enne et ja jah juba järel ka kas keegi kelle kes kogu koos kui kuid kuidas kus kuhu küll ma meid
meie mida midagi miks millal milline mina mind minu mis mitte nad need neid nende nii ning nüüd oleks oled olema olen
oli olid olla oma on pärast peab pole saab sa seal see seda selle selles sest siin siis sina sinu sulle ta teda tema
temal teie teil tuleb üks väga või võib
""",
    "lt": """
apie ar arba aš bet bus būti buvo dabar dar dėl galima iki ir iš į jau jei jeigu jie jis ji jo jos jų juk ką kad kada
kai kaip kas kiek kol kur kuri kurie kurio kuris labai man mano mane mes mūsų nes nėra nei ne nuo o pagal pas per po
prie prieš šis ši su ta tai taip tarp tas tau tavo te tie tik to tu turi už yra
""",
    "tr": """
acaba ama aslında ben bana beni benim bir biraz birçok biri biz bize bizim bu buna bunu bunun burada çok çünkü da daha
de değil diye en evet gibi göre hangi hem hep her hiç için ile ise kadar ki kim mı mi mu mü nasıl ne neden nerede
niçin niye o ona olan olarak oldu olduğu olmak olsun olur on onlar onu onun orada sadece sana şey şimdi sen seni senin
siz sizin sonra şu tüm ve var veya ya yani yok zaman
""",
    "hu": """
a abban ahhoz ahogy aki akkor alatt ami amikor amit az azért azt azzal be csak de e egy egyik el én engem ennek ez
ezért ezt fel hanem hogy hogyan hol honnan ha igen így is itt jó kell ki kicsit ki le lesz lett lehet majd már még meg
mert mi miért mikor milyen mind minden mint most nagyon ne nekem nem neki nincs ő ők olyan ott őt pedig se sem sok
szerint után utána vagy vagyok van vannak volt voltak volna
""",
    "ro": """
a acea aceasta această aceea acel acele acest aceste acestea acum ai aici al ale am apoi ar are aș asta astfel așa
atunci au avea avem avut câte când care ce cei cel cele chiar că către cine cu cum cât da dacă de deci decât deja
despre din după ea ei el ele era erau este eu fără fi fie foarte fost iar îi îl îmi în încă între îți la le li lor lui
mai mea mei mele meu mi mult nici nimic noastră noi nostru nu o or pe pentru poate prin sa sau să săi se și sunt
suntem te toate tot toți tu tău un una unde unei unor unui vă voi
""",
    "pl": """
a aby albo ale ani aż bardzo bez bo być był była było były bym chce chyba ci cię co coś czy czyli dla do dlaczego gdy
gdzie go i ich ile im ja jak jaka jaki jakie jako je jego jej jest jestem jeszcze jeśli już każdy kiedy kto która
które który ku lub ma mam mamy masz mi mnie moje może mój my na nad nam nas nasz nawet nic nich nie niego nim niż o od
on ona oni ono oraz po pod ponieważ przed przez przy raz są się skąd swoje ta tak także tam te tego tej ten teraz to
tobie tu tutaj twój ty tylko tym u w we wie więc wszystko wy z za ze że żeby
""",
    "cs": """
a aby ale ani ano asi až bez bude budou by byl byla byli bylo být co což či do ho i já jak jaký jako je jeho její
jejich jen jenom ještě ji jsem jsi jsme jsou jste k kam kde kdo kdy když ke která které který má mám máme mi mě mít
mnou moc mohl moje mu musí muset můj může my na nad nám nás náš ne nebo nebyl něco není nic než o od on ona oni pak po
pod podle pokud potom pro proč protože před při s se si skoro svůj ta tady tak také takže tam tato ten tento teď to
toho tohle tu tvůj ty u už v ve velmi více však všechno všichni vy z za ze že
""",
    "id": """
ada adalah agar akan aku anda antara apa apakah atau bagaimana bagi bahwa banyak belum berapa bisa boleh bukan dalam
dan dapat dari dengan di dia ia ini itu jadi jangan jika juga kalau kami kamu kapan karena ke kepada kita lagi lebih
mana masih mengapa mereka namun oleh pada para paling pernah saat saja sampai sangat saya sebagai sebelum sebuah
sedang sejak semua seperti sering serta siapa suatu sudah supaya tapi telah tentang tersebut tetapi tidak untuk yaitu
yang
""",
    "vi": """
ai anh bạn bao bị bởi cả các cái càng chỉ chị cho chưa có còn con của cùng cũng đã đang đâu đây đấy đến để đi đó được
em gì hay hơn không khi là lại làm lên mà mình mỗi một muốn này năm nào nên nếu ngày người như nhưng những ở phải qua
ra rất rồi sao sau sẽ tại tế thì theo thế tôi trên trong từ và vẫn vào vì việc với vừa xin
""",
}

OTHERS = {
    "ru": """
а без бы был была были было быть в вам вас во вот все всё вы где да для до его ее её если есть ещё еще же за и из или
им их к как какая какие какой когда который которая которые которое кто ли меня мне мной мой моя моё мы на над нам нас
не него нет ни но ну о об он она они оно от очень по под почему при про с свой себя сколько со так также там тебя то
того тоже только тот ты у уже чего чем что чтобы эта эти это этого этот я
""",
    "uk": """
або але був була були було в від він вона вони воно все де для до є з за зі і із й її їх його коли котрий ми мій моя
на не ні ну про та так також там те ти тільки то у хто це цей ця чи чому що щоб я як який яка які якщо
""",
    "el": """
αν αντί από αυτά αυτή αυτό αυτός για γιατί δεν εγώ είναι είμαι εκεί εμείς ένα ένας εσύ ή ήταν η θα και κάθε κι με
μέχρι μετά μη μην μια μου μας να ο οι όπως όταν ότι πιο που πού ποια ποιο ποιος πολύ πότε πριν προς πως πώς σαν σας σε
στα στη στην στις στο στον στους σου τα την της τι τις το τον του τους των ως
""",
    "ar": """
أم أما أن إن أنا أنت أو أول أي أين إلى إلا الذي التي الذين أيضا بعد بعض بل بين تحت ثم حتى حيث ذلك تلك سوف عن عند على
عندما غير في فقط قبل قد كان كانت كل كم كما كيف لا لأن لقد لكن لم لماذا لن له لها لهم لي ليس ما ماذا متى مع من منذ نحن
نعم هذا هذه هل هم هنا هناك هو هي و يا
""",
    "fa": """
آن آنها از است اگر او اما این ای با باید بر برای بود بودند به بین پس تا تو چرا چه چون چی خود در دیگر را شد شده شما کجا
که کی ما من می نه نیز نیست هر هست هستند هم همه و ولی یا یک
""",
    "hi": """
अगर अब अपना अपनी अपने आप इन इस इसके इसी उन उस उसके उसने एक ऐसा और कब कर करना करने कहाँ का कि कितना कितने किया किस की
कुछ के को कोई कौन क्या क्यों गई गए गया जब जहाँ जो तक तब तो था थी थे दिया नहीं ने पर बहुत भी में मेरा मेरी मेरे मैं
मैंने मुझे यह यहाँ या ये रहा रही रहे लिए वह वहाँ वे सब साथ से हम ही हुआ हुई हूँ है हैं हो होता होना
""",
    "he": """
אבל או אותה אותו אותי אז אחרי איזה איך אין איפה אם אני אנחנו אף את אתה אתם במה בין בלי גם האם הוא היא היה היו היתה הם
הן הנה הזה הזאת זאת זה זו יותר יש כאן כבר כי כך כל כמה כן לא לאן לי לך למה לנו לפני מאוד מדוע מה מי מן מתי עד עוד
עכשיו על עם פה רק של שלי שלך שם
""",
    "ko": """
그 그가 그것 그것을 그는 그들 그래서 그런 그런데 그럼 그리고 나 나는 내 내가 너 너는 네 누가 누구 더 또 또는 때 무슨
무엇 무엇을 뭐 뭘 및 그러나 하지만 어느 어디 어디서 어디에 어떤 어떻게 언제 얼마나 왜 우리 우리는 이 이것 이것은
이런 저 저는 제 제가 잘 좀 할 수 것 것은 것을 것이 있는 있다 있어요 있습니다 없는 없다 하는 하다 했던 한 했다 합니다
했습니다 했어요 입니다 이다 였다
""",
}
"""The same for scripts that name their language."""


CHINESE = """
的 了 哪 谁 誰 在 是 我 你 他 她 很 也 就 吗 呢 吧 啊 嘛 们 着 嗎 們 著 么 麼 什么 什麼 怎么 怎麼 怎样 怎樣 哪里
哪裡 哪儿 哪个 哪個 谁的 为什 為什 多少 几个 是不 不是 是否 是在 在哪 我们 我們 你们 你們 他们 他們 她们 她們 这个
這個 那个 那個 这些 這些 那些 这是 那是 这样 這樣 那样 那樣 一个 一個 没有 沒有 可以 可能 因为 因為 所以 但是 如果
虽然 雖然 还是 還是 或者 以及 关于 關於 对于 對於 时候 時候 什时 么时 我在 你在 他在 我是 你是 他是 和我 我和 上次
请问 請問 告诉 告訴 知道 一下 一些 有没 有沒
"""
"""Characters and pairs of Chinese that say little; a pair with one of the single characters says little as well."""


JAPANESE = """
です ます した まし でし たか すか した して てい いる いた する るか のか かっ った って から ので ため こと もの
とき ある あり ない なか なに なん 何を 何が 何で どこ どの どれ どう いつ だれ 誰が これ それ あれ この その あの
ここ そこ など また まで より だっ だけ ほど たい との には では とは へは でも とも たち さん 私は 私の 私が 僕は
僕の ください くだ ださ さい をし ように よう うに れる られ せる させ たの のは のが のを のに ろか しょ ょう
でしょ
"""
"""Pairs of Japanese that are endings and particles."""

JAPANESE_PARTICLES = "をはがにへとでもの"

LETTERS = {
    "ß": "de",
    "ä": "de sv fi et",
    "ö": "de sv fi et tr hu",
    "ü": "de et tr hu es",
    "å": "sv da no",
    "æ": "da no",
    "ø": "da no",
    "ñ": "es",
    "¿": "es",
    "¡": "es",
    "ã": "pt",
    "õ": "pt et",
    "ç": "fr pt tr ca",
    "è": "fr it ca",
    "é": "fr es pt it hu cs nl ca",
    "ê": "fr pt vi",
    "à": "fr it pt ca",
    "ù": "fr it",
    "ò": "it ca",
    "ì": "it",
    "á": "es pt hu cs",
    "í": "es pt hu cs",
    "ó": "es pt hu pl ca",
    "ú": "es pt hu cs",
    "â": "fr pt ro",
    "î": "fr ro",
    "ô": "fr pt vi",
    "û": "fr",
    "œ": "fr",
    "ă": "ro vi",
    "ș": "ro",
    "ţ": "ro",
    "ț": "ro",
    "ğ": "tr",
    "ı": "tr",
    "ş": "tr",
    "ő": "hu",
    "ű": "hu",
    "ą": "pl lt",
    "ę": "pl lt",
    "ł": "pl",
    "ń": "pl",
    "ś": "pl",
    "ź": "pl",
    "ż": "pl",
    "ć": "pl",
    "č": "cs lt",
    "ě": "cs",
    "ř": "cs",
    "š": "cs lt et",
    "ů": "cs",
    "ž": "cs lt et",
    "ý": "cs",
    "ė": "lt",
    "ū": "lt",
    "ų": "lt",
    "į": "lt",
    "đ": "vi",
    "ơ": "vi",
    "ư": "vi",
}
"""Letters that tell languages apart, and whose they are."""
