"""What the name of a column says about it, which is public whatever the rows are.

A name is a hint: `is_person_name` finds names of persons and cases in seven languages, and `is_identifier_name` also
finds names of identifiers of rows and things. The words are listed once, here, without accents and in the singular,
because a plural counts persons (`n_patients`).
"""

from __future__ import annotations

import re
import unicodedata


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


PERSONS = {
    "English": "account beneficiary client customer donor employee household insured member membership owner "
    "participant patient person pupil respondent student subject taxpayer user",
    "German": "benutzer haushalt klient konto kunde matrikel mitarbeiter mitglied nutzer personal personen proband "
    "schueler sozialversicherung steuer teilnehmer versicherten versicherung krankenversicherung",
    "French": "abonne adherent assure beneficiaire compte eleve employe etudiant foyer menage membre patiente personne "
    "salarie sujet utilisateur",
    "Spanish": "afiliado alumno asegurado cliente cuenta empleado estudiante hogar miembro paciente participante "
    "persona socio sujeto usuario",
    "Italian": "assicurato conto dipendente membro partecipante paziente soggetto studente utente",
    "Dutch": "burgerservice deelnemer gebruiker huishouden klant lid medewerker persoon rekening verzekerde werknemer",
    "Portuguese": "aluno beneficiario conta doente empregado estudante funcionario pessoa segurado sujeito utilizador",
}
"""Words for a person, an account or a household, by language. Before or after a word for a key they name persons."""
CASES = {
    "English": "admission case chart encounter enrollment enrolment hosp hospital nhs randomisation randomization "
    "record registration screening security study",
    "German": "aufnahme behandlungsfall fall studie",
    "French": "dossier etude securite sejour sociale",
    "Spanish": "caso estudio expediente historia seguridad social",
    "Italian": "cartella fiscale ricovero",
    "Dutch": "dossier opname",
    "Portuguese": "caso estudo processo prontuario",
}
"""Words for a case, a file or a study of a person, by language. Before or after a word for a number they name cases."""
SHORT = _set("acct cust emp enrollee hh kd mbr mem pat pers pid pt resp subj usr vers")
"""Abbreviations of words for persons, which name persons before a key."""
ALONE = _set(
    "client cliente customer gebruiker klant klient kunde nutzer paciente participant participante patient patiente "
    "paziente person persona proband respondent subject sujet teilnehmer user usuario utente utilisateur"
)
"""Words that name persons without a key; other words for persons often say whether someone is a student or a member."""
PERHAPS = _set(
    "account acct compte cuenta employee employe haushalt household konto lid member membre membro miembro mitarbeiter "
    "mitglied rekening schueler student"
)
"""Words for persons that, alone, name persons or say something about them, such as whether someone is a member."""
CODES = _set(
    "achternaam apellido apellidos bsn caseid cognome cpf curp dni familienname firstname forename fullname hhid iban "
    "kvnr lastname mrn nachname nif nino nip nir personnummer pesel pid prenom ptid ssn studyid subjid surname svnr "
    "usubjid voornaam vorname"
)
"""Abbreviations of numbers, and words for names, that only one person has."""
CONTACTS = _set("email mail phone telephone mobile fax passport telefon telefono telefone telefoon reisepass")
"""Words that identify a person together with a number or an address; alone, `phone` may only say yes or no."""
THINGS = _set("card credit invoice loan order policy serial ticket")
"""Words for things with a unique number."""
NUMBERS = _set("no nr num nro number numero nummer")
"""Words for a number."""
IDENTIFIERS = _set("id ids uuid guid rowid unnamed")
"""Words that mark the name of an identifier."""
KEYS = (
    NUMBERS
    | IDENTIFIERS
    | _set("code cod codice codigo identifiant identificador identificativo identifier kennung key schluessel")
)
"""Words for a number, a code or a key."""
FIRST_KEYS = KEYS - {"no", "number", "key"}
"""Words for a key that may also come first, as in `id_paciente`."""
LINKS = _set("d da de del der des di do du l of the van von")
"""Words that may stand between a key and a person, as in `numero_de_cliente`."""
BEFORE_NAME = _set("name first last full given family middle maiden nick")
"""Words that together with `name` identify a person."""
OF_A_PERSON = _set("first given last maiden middle")
"""Words directly before `name` that identify a person whatever stands before them, as in `contact_last_name`."""
UNNAMED = re.compile(r"column_\d+")
"""Pattern of the name of a column without a name, usually an index that was written with the table."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")

_PERSONS = _set(" ".join(PERSONS.values()))
_CASES = _set(" ".join(CASES.values()))
_LINKED = "(?:e|en|er|es|n|s)?"
_PERSON_WORDS = "|".join(sorted(_PERSONS | SHORT))
_CASE_WORDS = "|".join(sorted(_CASES))
_PERSON = re.compile(rf"(?:{_PERSON_WORDS}){_LINKED}")
"""Pattern of a word for a person before a key, such as `kunden`."""
_CASE = re.compile(rf"(?:{_CASE_WORDS}|{'|'.join(sorted(CONTACTS))}){_LINKED}")
"""Pattern of a word for a case, or of a contact, before a number."""
_JOINED = re.compile(
    rf"(?:{_PERSON_WORDS}){_LINKED}(?:{'|'.join(sorted(KEYS))})"
    rf"|(?:{_CASE_WORDS}){_LINKED}(?:{'|'.join(sorted(NUMBERS))})"
    rf"|(?:{'|'.join(sorted(FIRST_KEYS))})(?:{_PERSON_WORDS})"
)
"""Pattern of one word that joins a person or a case and a key, such as `patientennummer` or `userid`."""


def words_of_name(name: str) -> list[str]:
    """Return the words of a name in lower case and without accents; capitals separate words too.

    >>> words_of_name("customerID_no"), words_of_name("E-Mail"), words_of_name("Numéro_Schlüssel")
    (['customer', 'id', 'no'], ['e', 'mail'], ['numero', 'schluessel'])
    """
    spelt = name.replace("ß", "ss")
    for umlaut, letters in (("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("Ä", "Ae"), ("Ö", "Oe"), ("Ü", "Ue")):
        spelt = spelt.replace(umlaut, letters)
    plain = "".join(each for each in unicodedata.normalize("NFKD", spelt) if not unicodedata.combining(each))
    return [word.lower() for word in WORD.findall(plain)]


def is_identifier_name(name: str) -> bool:
    """Return whether `name`, the name of a column, says that it identifies rows, things, persons or cases.

    >>> [is_identifier_name(name) for name in ("patientId", "row id", "paid", "email", "product_name", "card number")]
    [True, True, False, False, False, True]
    """
    words = words_of_name(name)
    numbered = len(words) > 1 and words[-1] in NUMBERS and words[-2] in THINGS
    return bool(IDENTIFIERS & set(words)) or numbered or is_person_name(name)


def is_person_name(name: str) -> bool:
    """Return whether `name`, the name of a column, says that it identifies persons or their cases.

    Cases are records such as hospital stays. Names, e-mail addresses and official numbers of persons count, too.

    >>> [is_person_name(name) for name in ("PatNr", "Fallnummer", "id_paciente", "user_id", "full name", "MRN")]
    [True, True, True, True, True, True]
    >>> [is_person_name(name) for name in ("customer_type", "telephone", "member", "n_patients", "rapid", "visit_no")]
    [False, False, False, False, False, False]
    """
    words = words_of_name(name)
    if not words:
        return False
    *before, last = words
    if any(word in CODES or _JOINED.fullmatch(word) for word in words) or (last in ALONE and not before):
        return True
    if last == "name":
        return set(before) <= _PERSONS | BEFORE_NAME or before[-1] in OF_A_PERSON
    if last == "address" and before:
        return set(before) <= CONTACTS | {"e"}
    first, *after = words
    if first in FIRST_KEYS and after:
        named = set(after) - LINKS
        return bool(named) and named <= _PERSONS | (_CASES if first in NUMBERS | {"codice"} else set())
    return last in KEYS and any(
        _PERSON.fullmatch(word) or (last in NUMBERS and _CASE.fullmatch(word)) for word in before
    )


def may_name_persons(name: str) -> bool:
    """Return whether `name`, the name of a column, is one word for persons or accounts and nothing else.

    Such a column may identify persons, or say something about them. Its values tell which of the two.

    >>> [may_name_persons(name) for name in ("member", "Konto", "account_balance", "accounts", "is_member")]
    [True, True, False, False, False]
    """
    words = words_of_name(name)
    return len(words) == 1 and words[0] in PERHAPS
