"""What is written in one form of a word is found by another, in many languages; single words and whole questions alike."""

# ruff: noqa: RUF001 - letters of many scripts

import pytest

from melete.store.words import query, terms

WRITTEN_AND_ASKED = {
    "English": """
We bought two bicycles for the children. | buy
Maria went hiking in the mountains. | mountain
She had written several letters to them. | write
The mice were running through the kitchen. | mouse
He organised the shelves by colour. | organize
Their favourite theatres were closed. | favorite theater
They've been travelling since the morning. | traveling
The geese flew over our house. | goose
I forgot to pay the electricity bill. | forgotten
My neighbour's dog bit the postman. | bites
The servers crashed during the deployment. | deployments
It's the happiest day of our lives. | life
""",
    "German": """
Wir haben gestern neue Häuser besichtigt. | Haus
Die Kinder spielten mit den Hunden im Garten. | Hund
Ich habe die Rechnungen schon bezahlt. | Rechnung
Der Arzt hat mir Tabletten verschrieben. | Tablette
Wir treffen uns an der Straße vor dem Museum. | Strasse
Meine Mutter kaufte frische Äpfel auf dem Markt. | Apfel
Das Mädchen verlor seine Schlüssel. | Maedchen
Die Verträge müssen bis Freitag unterschrieben werden. | Vertrag
Er übersetzte die wichtigen Briefe. | wichtiger Brief
Unsere Freunde wohnen in kleinen Städten. | kleine Stadt
Es gab Probleme mit den Datenbanken. | Datenbank
""",
    "French": """
Nous avons acheté des chevaux et des vaches. | vache
Elle a perdu ses clés dans le jardin. | clé
Les réunions sont prévues pour lundi. | réunion
J'ai oublié de payer les factures. | facture
Mon frère travaillait dans une boulangerie. | travailler
Les enfants mangeaient des pommes vertes. | manger pomme
L'ordinateur de ma sœur est tombé en panne. | ordinateurs
Ils ont visité plusieurs musées à Lyon. | musée
Nous cherchons une maison avec de grandes fenêtres. | fenêtre
C'est l'hôtel que je préférais. | hotels
Il a signé les contrats avec l'entreprise. | contrat
""",
    "Spanish": """
Ayer compramos unas manzanas en el mercado. | manzana
Los niños jugaban en la calle con sus perros. | perro
Mi hermana perdió las llaves de su casa. | llave
Las reuniones serán los martes por la tarde. | reunión
Estoy buscando un apartamento con dos habitaciones. | habitación
Hemos firmado los contratos con la empresa. | contrato
El médico me recetó unas pastillas. | pastilla
¿Te acuerdas de las canciones que cantábamos? | canción
Visitamos muchos museos durante las vacaciones. | museo
Mañana celebramos los cumpleaños en la playa. | manana playas
Los servidores fallaron después de la actualización. | servidor actualizaciones
""",
    "Italian": """
Ieri abbiamo comprato delle mele al mercato. | mela
I bambini giocavano con i gatti nel giardino. | gatto
Mia sorella ha perso le borse nere. | borsa nera
Le riunioni saranno il martedì pomeriggio. | riunione
Cerchiamo una casa con due camere grandi. | camera
Ho già pagato tutte le bollette. | bolletta
Il medico mi ha dato delle medicine. | medicina
Abbiamo visitato molti musei durante le vacanze. | museo vacanza
Ti ricordi le canzoni che cantavamo? | canzone
L'amico di mio fratello abita a Torino. | amici
Hanno firmato i contratti con l'azienda. | contratto
""",
    "Portuguese": """
Ontem compramos umas maçãs no mercado. | maçã
As crianças brincavam com os gatos no jardim. | gato
A minha irmã perdeu as chaves do carro. | chave
As reuniões serão na terça-feira à tarde. | reunião
Estou procurando uma casa com dois quartos grandes. | quarto
Já paguei todas as contas do mês. | conta
O médico me receitou uns comprimidos. | comprimido
Visitamos muitos museus durante as viagens. | museu
Você se lembra das canções que cantávamos? | cantar
Assinamos os contratos com a empresa. | contrato
Os servidores caíram depois da atualização. | servidor
""",
    "Dutch": """
We hebben gisteren nieuwe fietsen gekocht. | fiets
De kinderen speelden met de honden in de tuin. | hond
Mijn zus is haar sleutels verloren. | sleutel
De vergaderingen zijn op dinsdagmiddag. | vergadering
Ik heb alle rekeningen al betaald. | rekening
We zoeken een huis met twee grote kamers. | kamer
De dokter gaf mij een paar tabletten. | tablet
We bezochten veel musea en oude kerken. | kerk
Hij vertaalde de belangrijke brieven. | belangrijk
De contracten moeten voor vrijdag getekend worden. | contract
Er waren problemen met de servers. | probleem
""",
    "Swedish": """
Vi köpte nya cyklar igår. | cykel
Barnen lekte med hundarna i trädgården. | hund trädgård
Min syster har tappat sina nycklar. | nyckel
Mötena är på tisdag eftermiddag. | mötet
Jag har redan betalat alla räkningar. | räkning
Vi letar efter ett hus med två stora sovrum. | huset
Läkaren gav mig några tabletter. | tablett
Vi besökte många kyrkor under resan. | kyrka
Han översatte de viktiga breven. | viktig brev
Avtalen måste skrivas under före fredag. | avtal
Det var problem med servrarna och databaserna. | databas
""",
    "Danish": """
Vi købte nye cykler i går. | cykel
Børnene legede med hundene i haven. | hund
Min søster har mistet sine nøgler. | nøgle
Møderne er tirsdag eftermiddag. | møde
Jeg har allerede betalt alle regningerne. | regning
Vi leder efter et hus med to store værelser. | værelse
Lægen gav mig nogle tabletter. | tablet
Vi besøgte mange kirker på rejsen. | kirke
Han oversatte de vigtige breve. | vigtig brev
Kontrakterne skal underskrives inden fredag. | kontrakt
Der var problemer med databaserne. | database problem
""",
    "Norwegian": """
Vi kjøpte nye sykler i går. | sykkel
Barna lekte med hundene i hagen. | hund hage
Søsteren min har mistet nøklene sine. | søster
Møtene er på tirsdag ettermiddag. | møte
Jeg har allerede betalt alle regningene. | regning
Vi leter etter et hus med to store rom. | huset
Legen ga meg noen tabletter. | tablett
Vi besøkte mange kirker på reisen. | kirke reise
Han oversatte de viktige brevene. | viktig brev
Kontraktene må skrives under før fredag. | kontrakt
Det var problemer med databasene. | database
""",
    "Finnish": """
Ostimme eilen uusia kirjoja torilta. | kirja
Lapset leikkivät koirien kanssa puutarhassa. | koira puutarha
Siskoni hukkasi avaimensa. | avain
Kokoukset ovat tiistaina iltapäivällä. | kokous
Olen jo maksanut kaikki laskut. | lasku
Etsimme taloa, jossa on kaksi huonetta. | talo
Lääkäri antoi minulle tabletteja. | tabletti
Kävimme matkalla monissa museoissa. | museo
Hän asuu pienessä kaupungissa. | pieni kaupungista
Sopimukset pitää allekirjoittaa perjantaina. | sopimus
Palvelimissa oli ongelmia. | ongelma
""",
    "Russian": """
Вчера мы купили новые книги. | книга
Дети играли с собаками в саду. | собака
Моя сестра потеряла ключи от квартиры. | ключ
Встречи будут во вторник после обеда. | встреча
Я уже оплатил все счета. | оплатить
Мы ищем дом с большими окнами. | окно
Врач выписал мне таблетки. | таблетка
Мы посетили много музеев во время поездки. | музей
Он живёт в маленьком городе. | живет город
Договоры нужно подписать до пятницы. | договор
После обновления упали серверы. | сервер обновление
""",
    "Ukrainian": """
Вчора ми купили нові книги. | книга
Діти гралися з собаками в саду. | собака
Моя сестра загубила ключі. | ключ
Зустрічі будуть у вівторок. | зустріч
Лікар виписав мені таблетки. | таблетка
Ми шукаємо квартиру з великими вікнами. | вікно
Він живе в маленькому місті біля музею. | музей
Після оновлення впали сервери. | сервер
Вони підписали договори. | договори
Ми відвідали багато країн. | країна
""",
    "Polish": """
Wczoraj kupiliśmy nowe rowery. | rower
Dzieci bawiły się z kotami w ogrodzie. | kot
Moja siostra zgubiła klucze do mieszkania. | klucz
Spotkania będą we wtorek po południu. | spotkanie
Zapłaciłem już wszystkie rachunki. | rachunek
Szukamy domu z dużymi oknami. | okno
Lekarz przepisał mi tabletki. | tabletka
Zwiedziliśmy wiele kościołów i zamków. | zamek kościół
On mieszka obok starego teatru. | teatr
Trzeba podpisać umowy do piątku. | umowa
Po aktualizacji padły serwery. | serwer aktualizacja
""",
    "Czech": """
Včera jsme koupili nové knihy. | kniha
Děti si hrály s kočkami na zahradě. | kočka zahrada
Moje sestra ztratila klíče od bytu. | klíč
Schůzky budou v úterý odpoledne. | schůzka
Už jsem zaplatil všechny účty. | účet účtu
Hledáme dům s velkými okny. | okno
Lékař mi předepsal tablety. | tableta
Navštívili jsme mnoho hradů a kostelů. | hrad kostel
Bydlí v malém městě vedle divadla. | město divadlo
Do pátku je třeba podepsat smlouvy. | smlouva
Po aktualizaci spadly servery. | server
""",
    "Turkish": """
Dün pazardan elmalar aldık. | elma
Çocuklar bahçede köpeklerle oynuyordu. | köpek
Kız kardeşim evin anahtarlarını kaybetti. | anahtar
Toplantılar salı günü öğleden sonra. | toplantı
Bütün faturaları ödedim. | fatura
Büyük pencereli bir ev arıyoruz. | pencere
Doktor bana haplar yazdı. | hap
Gezide birçok müzeleri ziyaret ettik. | müze
İstanbul'da küçük bir evde yaşıyor. | ISTANBUL
Sözleşmeleri cumaya kadar imzalamak lazım. | sözleşme
Işıklar gece boyunca yandı. | ışık
""",
    "Hungarian": """
Tegnap új könyveket vettünk. | könyv
A gyerekek kutyákkal játszottak a kertben. | kutya kert
A nővérem elvesztette a kulcsait. | kulcs
Az értekezletek kedden délután lesznek. | értekezlet
Már befizettem az összes számlát. | számla
Nagy ablakokkal rendelkező házat keresünk. | ablak
Az orvos tablettákat írt fel nekem. | tabletta
Sok múzeumot látogattunk meg az úton. | múzeum
Egy kis városban lakik a színház mellett. | város
A szerződéseket péntekig alá kell írni. | szerződés
A frissítés után leálltak a szerverek. | szerver
""",
    "Romanian": """
Ieri am cumpărat mere și cărți noi. | măr mere
Copiii se jucau cu pisicile în grădină. | pisică
Sora mea a pierdut cheile de la mașină. | mașini cheie
Întâlnirile vor fi marți după-amiază. | întâlnire
Am plătit deja toate chiriile. | chirie
Căutăm o casă cu ferestre mari. | fereastră ferestre
Doctorul mi-a prescris niște pastile. | pastilă
Am vizitat multe muzee în timpul călătoriei. | muzeu
Locuiește într-un oraș mic lângă teatru. | teatrul
Contractele trebuie semnate până vineri. | contract
După actualizare a căzut serverul. | server
""",
    "Greek": """
Χθες αγοράσαμε καινούργια βιβλία. | βιβλίο
Τα παιδιά έπαιζαν με τους σκύλους στον κήπο. | σκύλος
Η αδερφή μου έχασε τα κλειδιά της. | κλειδί
Οι συναντήσεις θα είναι την Τρίτη. | συνάντηση
Πλήρωσα ήδη όλους τους λογαριασμούς. | λογαριασμός
Ψάχνουμε σπίτι με μεγάλα παράθυρα. | παραθυρο
Ο γιατρός μου έγραψε χάπια. | χάπι
Επισκεφτήκαμε πολλά μουσεία στο ταξίδι. | μουσείο
Μένει σε μια μικρή πόλη δίπλα στο θέατρο. | θέατρα
Τα συμβόλαια πρέπει να υπογραφούν. | συμβόλαιο
Υπήρχαν προβλήματα με τη βάση δεδομένων. | πρόβλημα
""",
    "Arabic": """
اشترينا أمس كتابا جديدا. | كتاب
لعب الأطفال في الحديقة. | حديقة
فقدت أختي مفاتيح السيارة. | سيارة
الاجتماعات يوم الثلاثاء. | اجتماع
دفعت كل الفواتير. | فواتير
نبحث عن بيت كبير. | البيت
كتب لي الطبيب الدواء. | طبيب
زرنا المتاحف في الرحلة. | رحلة
يسكن في مدينة صغيرة. | المدينة
يجب توقيع العقود قبل الجمعة. | عقود
كَتَبَ المُعَلِّمُ الدَّرْسَ | معلم
""",
    "Persian": """
دیروز کتاب‌ها را خریدیم. | کتاب
بچه‌ها در باغ بازی می‌کردند. | بچه
خواهرم کلیدها را گم کرد. | کلید
جلسه‌ها روز سه‌شنبه است. | جلسه
دنبال خانه‌های بزرگ هستیم. | خانه
پزشک برایم قرص‌ها نوشت. | قرص
از موزه‌های شهر دیدن کردیم. | موزه
قراردادها را امضا کردند. | قرارداد
مشکلات زیادی داشتیم. | مشکل
دوستان من آمدند. | دوست
""",
    "Hindi": """
हमने कल नई किताबें खरीदीं। | किताब
बच्चे बगीचे में कुत्तों के साथ खेल रहे थे। | कुत्ता
मेरी बहन ने चाबियाँ खो दीं। | चाबी
मैंने सारे बिलों का भुगतान कर दिया। | बिल
डॉक्टर ने मुझे गोलियाँ दीं। | गोली
हमने कई मंदिरों को देखा। | मंदिर
वह छोटे शहरों में रहता है। | शहर
लड़कियाँ स्कूल गईं। | लड़की
उसने दोस्तों को पत्र लिखा। | दोस्त
अपडेट के बाद सर्वरों में समस्या थी। | सर्वर
""",
    "Hebrew": """
קנינו את הספרים בחנות הישנה. | חנות
אתמול קנינו ספרים חדשים. | ספר
הילדים שיחקו בגינה עם הכלב. | כלב
אחותי איבדה את המפתחות. | מפתח
הפגישות יהיו ביום שלישי. | פגישות
הרופא נתן לי כדורים. | כדור
אנחנו מחפשים דירה בירושלים. | ירושלים
הוא גר ליד התיאטרון. | תיאטרון
ביקרנו במוזיאון. | מוזיאון
החוזים נחתמו לפני שבוע. | חוזה חוזים
נסענו לחיפה ברכבת. | רכבת
""",
    "Indonesian": """
Kemarin kami membeli buku baru di pasar. | bukunya
Anak-anak bermain dengan anjing di taman. | anak
Adik saya menghilangkan kuncinya. | kunci
Pertemuan itu hari Selasa sore. | pertemuannya
Saya sudah membayar semua tagihan. | dibayar
Kami mencari rumah dengan jendela besar. | rumahnya
Dokter memberi saya beberapa obat. | obatnya
Kami mengunjungi banyak museum. | museumnya
Dia tinggal di kota kecil. | kotanya
Kontraknya harus ditandatangani. | kontrak
""",
    "Catalan": """
Ahir vam comprar unes pomes al mercat. | poma
Els nens jugaven amb els gats al jardí. | gat
La meva germana ha perdut les claus. | clau
Les reunions seran dimarts a la tarda. | reunió
Ja he pagat totes les factures. | factura
Busquem una casa amb finestres grans. | finestra
El metge em va receptar unes pastilles. | pastilla
Vam visitar molts museus durant el viatge. | museu
L'amic del meu germà viu a Girona. | amics
Hem signat els contractes amb l'empresa. | contracte
""",
    "Estonian": """
Ostsime eile uusi raamatuid. | raamat
Lapsed mängisid aias koertega. | lapse
Mu õde kaotas oma võtmed. | võtmeid
Koosolekud on teisipäeval. | koosolek
Ma maksin kõik arved ära. | arve
Me otsime suurte akendega maja. | majas
Arst kirjutas mulle tablette. | tablett
Külastasime reisil paljusid muuseume. | muuseum
Ta elab väikeses linnas. | linn
Lepingud tuleb reedeks allkirjastada. | leping
""",
    "Lithuanian": """
Vakar mes pirkome naujas knygas. | knyga
Vaikai žaidė su šunimis sode. | vaikas
Mano sesuo pametė raktus. | raktas
Susitikimai bus antradienį. | susitikimas
Aš jau apmokėjau visas sąskaitas. | sąskaita
Mes ieškome namo su dideliais langais. | langas
Gydytojas man išrašė tabletes. | tabletė
Mes aplankėme daug muziejų. | muziejus
Jis gyvena mažame mieste. | miestas
Sutartis reikia pasirašyti iki penktadienio. | sutarties
""",
    "Korean": """
우리는 학교에서 만났어요. | 만나다
어제 새 책을 샀습니다. | 책
아이들이 공원에서 강아지와 놀았다. | 강아지가
동생이 열쇠를 잃어버렸어요. | 열쇠
회의는 화요일 오후에 있습니다. | 회의
점심에 김치찌개를 먹었어요. | 먹다
커피를 마셨습니다. | 마시다
서울대학교 근처에 살아요. | 대학교
병원에 갔다가 왔어요. | 병원으로
공부했어요. | 공부
영화를 봤어요. | 보다
""",
    "Japanese": """
昨日、新しい本を買いました。 | 新しい本
子供たちは公園で犬と遊んでいた。 | 公園
姉が家の鍵をなくした。 | 鍵
会議は火曜日の午後です。 | 火曜日
ラーメンを食べました。 | 食べる
コンピューターが壊れた。 | コンピュータ
ﾃﾞｰﾀﾍﾞｰｽの移行が終わった。 | データベース
東京大学の近くに住んでいる。 | 大学
プロジェクトの締め切りは金曜日だ。 | プロジェクト
お茶を飲みたい。 | 茶
Ｐｙｔｈｏｎで書いた。 | python
""",
    "Chinese": """
去年的会议在上海举行。 | 会议
我昨天买了一辆新自行车。 | 自行车
她把家里的钥匙弄丢了。 | 钥匙
机器学习的项目下周开始。 | 机器学习
孩子们在公园里玩。 | 公园
请把合同发给客户。 | 合同
我想喝茶。 | 茶
服务器在更新之后崩溃了。 | 服务器
他住在北京大学附近。 | 北京
用Python脚本处理数据。 | python
医生给我开了药。 | 药
""",
    "Thai": """
เมื่อวานเราซื้อหนังสือใหม่ | หนังสือ
เด็กๆเล่นกับสุนัขในสวน | สุนัข
ประชุมวันอังคารตอนบ่าย | ประชุม
เขาอยู่ในเมืองเล็ก | เมือง
หมอให้ยาฉัน | หมอ
เราไปพิพิธภัณฑ์ | พิพิธภัณฑ์
ฉันจ่ายบิลแล้ว | บิล
เซิร์ฟเวอร์ล่มหลังอัปเดต | เซิร์ฟเวอร์
แม่ทำกุญแจหาย | กุญแจ
เราดื่มกาแฟ | กาแฟ
""",
    "Vietnamese": """
Hôm qua chúng tôi đã mua sách mới. | sach
Bọn trẻ chơi với con chó trong vườn. | vườn
Chị tôi làm mất chìa khóa. | chìa khóa
Cuộc họp vào chiều thứ ba. | hop
Tôi đã trả hết hóa đơn. | hóa đơn
Bác sĩ cho tôi thuốc. | thuốc
Anh ấy sống ở Hà Nội. | ha noi
Chúng tôi đã đến thăm bảo tàng. | bao tang
Máy chủ bị sập. | máy chủ
Hợp đồng phải ký trước thứ sáu. | hợp đồng
""",
}
QUESTIONS = {
    "English": "What do you know about the {}?",
    "German": "Was weißt du noch über {} und wann war das?",
    "French": "Qu'est-ce que tu sais de {} et quand est-ce que c'était ?",
    "Spanish": "¿Qué sabes tú sobre {} y cuándo fue?",
    "Italian": "Che cosa sai di {} e quando è stato?",
    "Portuguese": "O que você sabe sobre {} e quando foi?",
    "Dutch": "Wat weet je nog over {} en wanneer was dat?",
    "Swedish": "Vad vet du om {} och när var det?",
    "Danish": "Hvad ved du om {} og hvornår var det?",
    "Norwegian": "Hva vet du om {} og når var det?",
    "Finnish": "Mitä tiedät tästä: {} ja milloin se oli?",
    "Russian": "Что ты знаешь о {} и когда это было?",
    "Ukrainian": "Що ти знаєш про {} і коли це було?",
    "Polish": "Co wiesz o {} i kiedy to było?",
    "Czech": "Co víš o {} a kdy to bylo?",
    "Turkish": "Bu konuda ne biliyorsun: {} ve ne zaman oldu?",
    "Hungarian": "Mit tudsz erről: {} és mikor volt ez?",
    "Romanian": "Ce știi despre {} și când a fost?",
    "Indonesian": "Apa yang kamu tahu tentang {} dan kapan itu?",
    "Catalan": "Què saps de {} i quan va ser això?",
    "Chinese": "你知道{}吗？",
    "Japanese": "{}について何を知っていますか。",
}
PAIRS = [
    (language, *(part.strip() for part in line.split("|")))
    for language, lines in WRITTEN_AND_ASKED.items()
    for line in lines.strip().splitlines()
]


def found(asked: str, written: str) -> set[str]:
    """The words of `asked` that a text holds."""
    held = set(terms(written))
    return {term.text for term in query(asked) if not term.stop and not held.isdisjoint(term.forms)}


@pytest.mark.parametrize(("language", "written", "asked"), PAIRS)
def test_a_word_finds_its_other_forms(language: str, written: str, asked: str) -> None:
    assert found(asked, written)


@pytest.mark.parametrize(("language", "written", "asked"), [pair for pair in PAIRS if pair[0] in QUESTIONS])
def test_a_question_with_the_word_finds_them_as_well(language: str, written: str, asked: str) -> None:
    assert found(asked, written) & found(QUESTIONS[language].format(asked), written)


@pytest.mark.parametrize("language", WRITTEN_AND_ASKED)
def test_a_word_seldom_finds_a_text_without_it(language: str) -> None:
    pairs = [pair for pair in PAIRS if pair[0] == language]
    wrong = [
        (asked, other) for _, mine, asked in pairs for _, other, _ in pairs if other != mine and found(asked, other)
    ]
    assert len(wrong) <= len(pairs) * (len(pairs) - 1) // 20, wrong


@pytest.mark.parametrize("language", WRITTEN_AND_ASKED)
def test_ten_pairs_at_least(language: str) -> None:
    assert len([pair for pair in PAIRS if pair[0] == language]) >= 10
